"""Packs a folder as a wheel.

    python scripts/lib/pack_wheel.py FOLDER METADATA TAG OUT

FOLDER has what is installed: `tensorbus/`, and `tensorbus-VERSION.data/`. METADATA is the
`tensorbus-VERSION.dist-info` that the build back end prepares. TAG is such as
cp312-abi3-linux_x86_64. The same files make the same wheel, byte by byte: the time of each is
SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from needed_versions import is_compiled


def files_of(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def metadata_of(folder: Path, tag: str) -> Iterator[tuple[str, bytes]]:
    for name, content in files_of(folder):
        if name == "WHEEL":
            text = re.sub(r"^(Tag|Root-Is-Purelib): .*\n", "", content.decode(), flags=re.M)
            content = f"{text.rstrip()}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
        if name != "RECORD":
            yield f"{folder.name}/{name}", content


def record_of(files: dict[str, bytes], name: str) -> bytes:
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{name},,\n"]).encode()


def write(wheel: Path, files: dict[str, bytes]) -> None:
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "1577836800"))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if is_compiled(name) else 0o644) << 16
            archive.writestr(info, content)


def main() -> None:
    folder, metadata, tag, out = (
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        sys.argv[3],
        Path(sys.argv[4]),
    )
    files = dict(files_of(folder)) | dict(metadata_of(metadata, tag))
    record = f"{metadata.name}/RECORD"
    files[record] = record_of(files, record)
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{metadata.name.removesuffix('.dist-info')}-{tag}.whl"
    write(wheel, files)
    print(wheel)


if __name__ == "__main__":
    main()
