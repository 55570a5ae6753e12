"""The parts of a release: wheels that are the same each time, and what is written about them."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.repository import ROOT

SCRIPTS = ROOT / "scripts" / "lib"
DIST_INFO = "tensorbus-1.2.3.dist-info"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
METADATA = """Metadata-Version: 2.4
Name: tensorbus
Version: 1.2.3
Summary: Tensors
Requires-Dist: msgspec>=0.18
Requires-Dist: rich>=13; extra == "cli"
Requires-Dist: tensorbus[cli]; extra == "view"
"""


def run(*command: str | Path, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, env=environment
    ).stdout


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path]:
    """What is installed, and the metadata."""
    files = {
        "stage/tensorbus/__init__.py": "",
        "stage/tensorbus/__pycache__/x.pyc": "not packed",
        "stage/tensorbus/lib/libtensorbus.so.0": "library",
        f"metadata/{DIST_INFO}/METADATA": METADATA,
        f"metadata/{DIST_INFO}/WHEEL": WHEEL,
        f"metadata/{DIST_INFO}/RECORD": "old",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "stage", tmp_path / "metadata" / DIST_INFO


def pack(parts: tuple[Path, Path], out: Path, epoch: str = "1700000000") -> Path:
    tag = "cp312-abi3-linux_x86_64"
    told = run(SCRIPTS / "pack_wheel.py", *parts, tag, out, SOURCE_DATE_EPOCH=epoch)
    return Path(told.strip())


def test_a_wheel_has_what_is_installed_and_its_hashes(
    parts: tuple[Path, Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(pack(parts, tmp_path / "dist")) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    record = files.pop(f"{DIST_INFO}/RECORD").decode().splitlines()
    assert record.pop() == f"{DIST_INFO}/RECORD,,"
    for line in record:
        name, digest, size = line.split(",")
        wanted = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode()
        assert digest == f"sha256={wanted.rstrip('=')}"
        assert int(size) == len(files.pop(name))
    assert files == {}


def test_the_tag_takes_the_place_of_the_old_one(parts: tuple[Path, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(pack(parts, tmp_path / "dist")) as archive:
        lines = archive.read(f"{DIST_INFO}/WHEEL").decode().splitlines()
    assert lines == [
        "Wheel-Version: 1.0",
        "Root-Is-Purelib: false",
        "Tag: cp312-abi3-linux_x86_64",
    ]


def test_the_same_files_make_the_same_wheel(parts: tuple[Path, Path], tmp_path: Path) -> None:
    first = pack(parts, tmp_path / "first").read_bytes()
    (parts[0] / "tensorbus/__init__.py").touch()
    assert pack(parts, tmp_path / "second").read_bytes() == first
    assert pack(parts, tmp_path / "third", epoch="1800000000").read_bytes() != first


def test_the_sbom_names_each_dependency_once_and_each_file(
    parts: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel = pack(parts, tmp_path / "dist")
    document = json.loads(run(SCRIPTS / "sbom.py", wheel.parent))
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["version"] == "1.2.3"
    components = {each["name"]: each for each in document["components"]}
    assert len(components) == len(document["components"])
    assert set(components) == {"nanobind", "robin-map", "msgspec", "rich", wheel.name}
    assert components["msgspec"]["scope"] == "required"
    assert components["rich"]["scope"] == "optional"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert components[wheel.name]["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_what_forbids_a_release_is_told_before_anything_is_built() -> None:
    done = subprocess.run(
        [ROOT / "scripts/release", "0.0.9"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "VERSION says" in done.stderr
