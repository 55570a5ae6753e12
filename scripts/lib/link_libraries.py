"""Makes the libraries that a wheel is linked with: those of this system, without what is newer than
what the tag of the wheel promises.

    python scripts/lib/link_libraries.py COMPILER FOLDER

FOLDER gets a libc.so.6, libm.so.6 and libstdc++.so.6 that have no code: for each symbol of the
system's libraries the newest version that a manylinux_2_28 system has. A program that is linked
with them needs nothing newer. A symbol that is newer only is not found by the linker, and has to be
in src/older_system/. libpthread.so.0 and libdl.so.2 are empty: the libraries of a system
whose libc.so.6 does not have their functions yet.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from needed_versions import NEWEST

LIBRARIES = ("libc.so.6", "libm.so.6", "libstdc++.so.6")
EMPTY = ("libpthread.so.0", "libdl.so.2")

# Of readelf: "  12: 00000000000a1b20   123 FUNC    GLOBAL DEFAULT   15 name@@VERSION"
SYMBOL = re.compile(
    r"^\s*\d+: [0-9a-f]+\s+(?P<size>\S+) (?P<kind>\w+) +(?:GLOBAL|WEAK|UNIQUE) +DEFAULT +"
    r"(?P<section>\d+) (?P<name>[^@\s]+)@@?(?P<version>\S+)",
    re.MULTILINE,
)


@dataclass
class Symbol:
    name: str
    version: str
    kind: str
    size: int


def number(version: str) -> tuple[int, ...] | None:
    """The number in GLIBC_2.2.5; None for a version that no policy names."""
    family, _, dotted = version.partition("_")
    if family not in NEWEST or not re.fullmatch(r"[0-9.]+", dotted):
        return None
    return tuple(map(int, dotted.split(".")))


def symbols_of(library: Path) -> Iterator[Symbol]:
    """Each symbol once, in the newest version that is allowed."""
    command = ["readelf", "--dyn-syms", "--wide", library]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    newest: dict[str, Symbol] = {}
    for found in SYMBOL.finditer(listed):
        symbol = Symbol(found["name"], found["version"], found["kind"], int(found["size"], 0))
        version = number(symbol.version)
        if version is None or version > NEWEST[symbol.version.partition("_")[0]]:
            continue
        other = newest.get(symbol.name)
        if other is None or (number(other.version) or ()) < version:
            newest[symbol.name] = symbol
    yield from newest.values()


def assembly_of(symbol: Symbol) -> str:
    """A definition of the same kind, without contents."""
    name = symbol.name
    if symbol.kind == "TLS":
        section, kind = '.section .tbss,"awT",%nobits', "%tls_object"
    elif symbol.kind == "OBJECT":
        section, kind = ".bss", "%object"
    else:
        section, kind = ".text", "%function"
    return (
        f"{section}\n.globl {name}\n.type {name},{kind}\n.size {name},{symbol.size}\n"
        f"{name}:\n.skip {max(symbol.size, 1)}\n"
    )


def make(compiler: str, name: str, symbols: list[Symbol], folder: Path) -> None:
    versions: dict[str, list[str]] = {}
    for symbol in symbols:
        versions.setdefault(symbol.version, []).append(symbol.name)
    source, script = folder / f"{name}.s", folder / f"{name}.map"
    source.write_text("".join(map(assembly_of, symbols)))
    nodes = (f"{version} {{ {'; '.join(names)}; }};" for version, names in versions.items())
    script.write_text("\n".join(nodes))
    options = ["-shared", "-nostdlib", f"-Wl,-soname,{name}"]
    if versions:
        options.append(f"-Wl,--version-script={script}")
    subprocess.run([compiler, *options, source, "-o", folder / name], check=True)


def main() -> None:
    compiler, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        command = [compiler, f"-print-file-name={name}"]
        path = Path(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        )
        if not path.is_absolute():
            raise SystemExit(f"error: {compiler} has no {name}")
        symbols = list(symbols_of(path))
        make(compiler, name, symbols, folder)
        print(f"{name}: {len(symbols)} symbols")
    for name in EMPTY:
        make(compiler, name, [], folder)


if __name__ == "__main__":
    main()
