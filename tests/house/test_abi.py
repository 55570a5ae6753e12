"""The C interface stays what it is for as long as the soname does; what the library consists of."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tensorbus
from support.harness import SANITIZED
from support.repository import ROOT

PACKAGE = Path(tensorbus.__file__).parent
BASELINE = ROOT / "tests/c/abi_0.txt"
INCLUDE = PACKAGE / "include"
HEADERS = INCLUDE / "tensorbus" / "c"
(LIBRARY,) = (PACKAGE / "lib").glob("libtensorbus.so*")

WITHOUT_SANITIZERS = pytest.mark.skipif(SANITIZED, reason="this library has them linked in")

STRUCT = re.compile(r"typedef struct (tb_\w+) \{(.*?)\n\} \1;", re.DOTALL)
FUNCTION = re.compile(r"^TB_API [\w ]+?\*? ?(tb_\w+)\(", re.MULTILINE)
CONSTANT = re.compile(r"^  (TB_\w+) =\s+(-?\d+)", re.MULTILINE)
FIELD = re.compile(r"(\w+)(?:\[\d+\])?(?:\)\([^)]*\))?(?:,|$)")


def run(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout


def without_comments(code: str) -> str:
    return re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)


CODE = "\n".join(without_comments(path.read_text()) for path in sorted(HEADERS.glob("*.h")))


def fields_of(body: str) -> list[str]:
    declarations = (part.strip() for part in body.split(";"))
    return [name for part in declarations if part for name in FIELD.findall(part)]


def test_fields_are_found() -> None:
    body = "uint32_t size;\n void (*release)(void *keeper);\n uint32_t a, b;\n uint8_t id[16];"
    assert fields_of(body) == ["size", "release", "a", "b", "id"]


def interface(folder: Path) -> list[str]:
    """Every function, constant, struct and field: a line each."""
    prints = []
    for name, body in STRUCT.findall(CODE):
        prints.append(f'printf("struct {name} %zu\\n", sizeof({name}));')
        prints += [
            f'printf("  {field} at %zu, %zu bytes\\n", offsetof({name}, {field}), '
            f"sizeof((({name} *)0)->{field}));"
            for field in fields_of(body)
        ]
    program = folder / "interface.c"
    program.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <tensorbus/tensorbus.h>\n"
        "int main(void) {\n" + "\n".join(prints) + "\nreturn 0;\n}\n"
    )
    run("gcc", "-std=c11", "-I", INCLUDE, program, "-o", folder / "interface")
    constants = [f"constant {name} {value}" for name, value in sorted(CONSTANT.findall(CODE))]
    functions = [f"function {name}" for name in sorted(FUNCTION.findall(CODE))]
    return functions + constants + run(folder / "interface").splitlines()


def test_nothing_of_the_interface_has_changed(tmp_path: Path) -> None:
    """What is new is added to the file; what a program may have been compiled with stays."""
    found = interface(tmp_path)
    assert len(found) > 200
    assert found == BASELINE.read_text().splitlines(), f"{BASELINE} says otherwise"


def exported() -> dict[str, str]:
    lines = run("nm", "--dynamic", "--defined-only", "--with-symbol-versions", LIBRARY).splitlines()
    symbols = (line.split()[-1] for line in lines if " A " not in line)
    return dict(symbol.replace("@@", "@").split("@", 1) for symbol in symbols)


def test_the_library_exports_the_interface_and_what_the_extension_needs() -> None:
    versions = exported()
    public = {name for name, version in versions.items() if version == "TENSORBUS_0"}
    assert public == set(FUNCTION.findall(CODE))
    others = {name for name in versions if name not in public}
    assert all("9tensorbus" in name for name in others)
    # Of programs' own copies of the headers, which must not meet those of the library.
    assert not {name for name in others if re.match(r"_Z(N|NK|TIN|TSN|TVN)9tensorbus2v0", name)}
    assert {versions[name] for name in others} == {f"TENSORBUS_PRIVATE_{tensorbus.__version__}"}


def test_a_program_of_an_older_header_runs(tmp_path: Path) -> None:
    """Its structs have fewer fields than ours, and no header of ours was there."""
    program = tmp_path / "program"
    run(
        *("gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
        *(BASELINE.parent / "older_program.c", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"),
        *("-o", program),
    )
    run(program)


@WITHOUT_SANITIZERS
def test_the_library_needs_libc_and_libstdcxx_alone() -> None:
    dynamic = run("readelf", "--dynamic", "--wide", LIBRARY)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", dynamic))
    assert needed <= {
        *("libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6"),
        *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libpthread.so.0"),
    }
    assert "[libtensorbus.so.0]" in re.findall(r"\(SONAME\).*", dynamic)[0]


def test_the_library_looks_up_nothing_while_it_handles_a_signal() -> None:
    """The stack that a handler runs on may have no room for that."""
    assert "BIND_NOW" in run("readelf", "--dynamic", "--wide", LIBRARY)


@WITHOUT_SANITIZERS
def test_the_library_is_small(tmp_path: Path) -> None:
    """Large functions that are called seldom are `[[gnu::cold]]`: compiled for size.

    The library of a release is smaller: it is optimized as a whole, and has no hooks of the tests.
    """
    shutil.copy(LIBRARY, tmp_path / "library")
    run("strip", tmp_path / "library")
    assert (tmp_path / "library").stat().st_size < 2_800_000


@pytest.mark.parametrize("language", ["c", "c++"])
def test_every_c_header_compiles_alone(tmp_path: Path, language: str) -> None:
    standard = "-std=c11" if language == "c" else "-std=c++11"
    for number, header in enumerate([*HEADERS.glob("*.h"), HEADERS.parent / "tensorbus.h"]):
        source = tmp_path / f"{number}.{language.replace('+', 'p')}"
        source.write_text(f"#include <{header.relative_to(INCLUDE)}>\n")
        run(
            *("gcc", "-x", language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
            *("-fsyntax-only", "-I", INCLUDE, source),
        )
