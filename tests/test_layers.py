"""Each layer of the C++ core includes what stands before it, and values of the public API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "tensorbus"
PUBLIC = ROOT / "include"
LAYERS = ("platform", "memory", "tensor", "link", "bus")
LEAVES = ("c", "python", "tools")
# Headers of the public C++ API that the inside uses, too; the others stand on the C interface, and
# have classes of the same names as those inside.
VALUES = {
    f"tensorbus/{name}.hpp"
    for name in (
        *("device", "dims", "dtype", "error", "id", "layout", "message", "message_type"),
        *(
            "file_options",
            "listed",
            "options",
            "origin",
            "outcome",
            "sample_header",
            "stats",
            "value",
            "version",
        ),
        *("internal/deadline", "internal/dlpack_types", "internal/few", "internal/message_pack"),
    )
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<quote>["<])(?P<path>[^">]+)[">]', re.MULTILINE)


def code_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in {".hpp", ".cpp", ".h", ".in"})


def may_include(folder: str, path: str) -> bool:
    if path in VALUES:
        return True
    parts = path.split("/")
    if len(parts) == 2:  # what is above all layers
        return folder in LEAVES and path in {"tensorbus/core.hpp", "tensorbus/tensorbus.h"}
    if (parts[1], folder) == ("c", "c"):
        return True
    if folder in LEAVES:
        return parts[1] in {*LAYERS, folder}
    return parts[1] in LAYERS[: LAYERS.index(folder) + 1]


def refused_includes(folder: str, code: str) -> list[str]:
    refused = []
    for match in INCLUDE.finditer(code):
        path = match["path"]
        if path.startswith("tensorbus/"):
            if not may_include(folder, path):
                refused.append(path)
        elif match["quote"] == '"':
            refused.append(f"{path} (write it from the root: tensorbus/...)")
    return refused


@pytest.mark.parametrize("folder", LAYERS + LEAVES)
def test_a_layer_includes_only_what_stands_before_it(folder: str) -> None:
    refused = {
        path.name: includes
        for path in code_files(SOURCES / folder)
        if (includes := refused_includes(folder, path.read_text()))
    }
    assert not refused


def test_a_value_includes_only_other_values() -> None:
    headers = VALUES - {"tensorbus/version.hpp"}  # the build makes that one
    for header in headers:
        includes = [match["path"] for match in INCLUDE.finditer((PUBLIC / header).read_text())]
        assert {path for path in includes if path.startswith("tensorbus/")} <= VALUES, header


def test_the_public_headers_include_nothing_of_the_inside() -> None:
    for header in code_files(PUBLIC):
        for match in INCLUDE.finditer(header.read_text()):
            assert match["quote"] == "<", header
            path = match["path"]
            inside = path.startswith("tensorbus/") and not (PUBLIC / path).exists()
            assert not inside or path == "tensorbus/version.hpp", header


def test_every_folder_of_the_core_is_a_layer_or_a_leaf() -> None:
    folders = {path.name for path in SOURCES.iterdir() if path.is_dir()}
    assert folders <= {*LAYERS, *LEAVES}


@pytest.mark.parametrize(
    ("folder", "line", "refused"),
    [
        ("memory", '#include "tensorbus/platform/fd.hpp"', False),
        ("memory", '#include "tensorbus/memory/arena.hpp"', False),
        ("memory", "#include <vector>", False),
        ("memory", '#include "tensorbus/version.hpp"', False),
        ("memory", '#include "tensorbus/tensor/dtype.hpp"', True),
        ("memory", "  #  include <tensorbus/bus/sample.hpp>", True),
        ("memory", "#include <tensorbus/dtype.hpp>", False),
        ("memory", "#include <tensorbus/publisher.hpp>", True),
        ("bus", "#include <tensorbus/tensorbus.h>", True),
        ("c", "#include <tensorbus/tensorbus.h>", False),
        ("c", "#include <tensorbus/tensorbus.hpp>", True),
        ("memory", '#include "arena.hpp"', True),
        ("memory", '#include "../bus/sample.hpp"', True),
        ("bus", '#include "tensorbus/python/module.hpp"', True),
        ("python", '#include "tensorbus/bus/sample.hpp"', False),
        ("python", '#include "tensorbus/core.hpp"', False),
        ("python", "#include <tensorbus/tensorbus.hpp>", True),
        ("python", '#include "tensorbus/tools/list.hpp"', True),
    ],
)
def test_the_check_itself(folder: str, line: str, refused: bool) -> None:
    assert bool(refused_includes(folder, line)) == refused
