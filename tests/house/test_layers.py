"""Each layer of the C++ core includes what stands before it, and values of the public API."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.repository import ROOT

SOURCES = ROOT / "src" / "tensorbus"
PUBLIC = ROOT / "include"
LAYERS = ("platform", "memory", "device", "tensor", "link", "bus", "recording")
# The folders of the bus, in the same order; what lies in bus/ itself comes after all of them.
BUS = (
    *(
        "event_loop",
        "domain",
        "inspect",
        "copy",
        "share",
        "session",
        "publish",
        "subscribe",
        "queue",
        "trace",
    ),
    *("connection", "queue_client", "participant"),
)
LEAVES = ("c", "python", "cli")
# Headers of the public C++ API that the inside uses, too: those in values/, and these. The others
# stand on the C interface, and have classes of the same names as those inside.
SHARED_HEADERS = {
    "tensorbus/version.hpp",
    *(
        f"tensorbus/internal/{name}.hpp"
        for name in (
            *("deadline", "dlpack_types", "fields", "message_pack", "one_or_many"),
            *("pack_cursor", "pack_format"),
        )
    ),
}

VENDORS = ("tensorbus/device/cuda/",)  # what lies beneath the interface of device/
MAX_FILES = 30  # in a folder

INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<quote>["<])(?P<path>[^">]+)[">]', re.MULTILINE)


def code_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in {".hpp", ".cpp", ".h", ".in"})


def may_include(folder: str, path: str) -> bool:
    """May code of this folder, from src/tensorbus, include this path?"""
    if is_value(path):
        return True
    layer, *rooms = folder.split("/")
    if layer == "cli" and (PUBLIC / path).exists():  # it is a program over the public headers
        return True
    _, *others, _ = path.split("/")
    if not others:  # what is above all layers
        return layer in LEAVES and path == "tensorbus/tensorbus.h"
    other, *other_rooms = others
    if path.startswith(VENDORS) and layer != "device":
        return False
    if layer == "cli":
        return other == "cli"
    if layer in LEAVES:
        return other in {*LAYERS, layer}
    if other not in LAYERS[: LAYERS.index(layer) + 1]:
        return False
    return (layer, other) != ("bus", "bus") or place(rooms) >= place(other_rooms)


def is_value(path: str) -> bool:
    return path.startswith("tensorbus/values/") or path in SHARED_HEADERS


def place(rooms: list[str]) -> int:
    return BUS.index(rooms[0]) if rooms else len(BUS)


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


@pytest.mark.parametrize("layer", LAYERS + LEAVES)
def test_a_layer_includes_only_what_stands_before_it(layer: str) -> None:
    refused = {
        path.name: includes
        for path in code_files(SOURCES / layer)
        if (includes := refused_includes(folder_of(path), path.read_text()))
    }
    assert not refused


def folder_of(path: Path) -> str:
    return path.parent.relative_to(SOURCES).as_posix()


# Those that hold more today: not more than these.
LARGE_FOLDERS = {"bench": 54, "include/tensorbus": 53}


def test_no_folder_holds_more_than_a_reader_can_hold() -> None:
    suffixes = {".hpp", ".cpp", ".h", ".c", ".cu", ".in", ".py"}
    counts = Counter(
        path.parent.relative_to(ROOT).as_posix()
        for tree in ("src", "include", "python", "tests", "fuzz", "bench")
        for path in (ROOT / tree).rglob("*")
        if path.suffix in suffixes and "build" not in path.parts
    )
    limits = {folder: LARGE_FOLDERS.get(folder, MAX_FILES) for folder in counts}
    assert {f: count for f, count in counts.items() if count > limits[f]} == {}


def test_unit_tests_lie_in_the_folders_of_what_they_test() -> None:
    tests = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(tests).as_posix() for path in code_files(tests)}
    assert {folder for folder in folders if not (SOURCES / folder).is_dir()} == set()


# Each file has the namespace of its layer. platform/ is left out: four of its files have functions
# of the public `tensorbus::Error`.
NAMED_BY_FOLDER = (
    *("memory", "device", "tensor", "link", "bus", "recording", "c", "python"),
    "tensor/mcap",
)
OPENED = re.compile(
    r"^namespace (tensorbus[\w:]*) \{(?!\n(?:(?:class|struct) \w+;\n)+\})", re.MULTILINE
)


@pytest.mark.parametrize("folder", NAMED_BY_FOLDER)
def test_a_folder_is_its_namespace(folder: str) -> None:
    layer, *rooms = folder.split("/")
    expected = ["tensorbus", layer, *(rooms if folder == "tensor/mcap" else [])]
    others = {
        path.relative_to(SOURCES).as_posix(): namespace
        for path in code_files(SOURCES / folder)
        for namespace in OPENED.findall(path.read_text())
        if namespace.split("::")[: len(expected)] != expected
    }
    assert others == {}


def test_a_value_includes_only_other_values() -> None:
    paths = {path.relative_to(PUBLIC).as_posix() for path in code_files(PUBLIC)}
    headers = {path for path in paths if is_value(path)}
    assert len(headers) > len(SHARED_HEADERS)
    for header in headers:
        includes = [match["path"] for match in INCLUDE.finditer((PUBLIC / header).read_text())]
        assert all(is_value(path) for path in includes if path.startswith("tensorbus/")), header


def test_each_value_can_be_included_by_its_former_path() -> None:
    for header in code_files(PUBLIC / "tensorbus" / "values"):
        former = PUBLIC / "tensorbus" / header.name
        assert former.read_text().endswith(f"#include <tensorbus/values/{header.name}>\n")


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
    assert {path.name for path in (SOURCES / "bus").iterdir() if path.is_dir()} == {*BUS}


@pytest.mark.parametrize(
    ("folder", "line", "refused"),
    [
        ("memory", '#include "tensorbus/platform/fd.hpp"', False),
        ("memory", '#include "tensorbus/memory/host/arena.hpp"', False),
        ("memory/host", '#include "tensorbus/memory/grant.hpp"', False),
        ("memory", "#include <vector>", False),
        ("memory", '#include "tensorbus/version.hpp"', False),
        ("memory", '#include "tensorbus/tensor/layout.hpp"', True),
        ("memory", "  #  include <tensorbus/bus/sample.hpp>", True),
        ("memory", "#include <tensorbus/values/dtype.hpp>", False),
        ("memory", "#include <tensorbus/dtype.hpp>", True),
        ("memory", "#include <tensorbus/publisher.hpp>", True),
        ("bus", "#include <tensorbus/tensorbus.h>", True),
        ("c", "#include <tensorbus/tensorbus.h>", False),
        ("c", "#include <tensorbus/tensorbus.hpp>", True),
        ("memory", '#include "arena.hpp"', True),
        ("memory", '#include "../bus/sample.hpp"', True),
        ("bus", '#include "tensorbus/python/module.hpp"', True),
        ("python", '#include "tensorbus/bus/subscribe/sample.hpp"', False),
        ("bus/copy", '#include "tensorbus/device/gpu.hpp"', False),
        ("bus/copy", '#include "tensorbus/device/cuda/driver.hpp"', True),
        ("python", '#include "tensorbus/device/cuda/driver.hpp"', True),
        ("cli", '#include "tensorbus/cli/output.hpp"', False),
        ("cli", "#include <tensorbus/inspection.hpp>", False),
        ("cli", "#include <tensorbus/internal/fields.hpp>", False),
        ("cli", '#include "tensorbus/platform/fd.hpp"', True),
        ("bus", '#include "tensorbus/cli/output.hpp"', True),
        ("device/order", '#include "tensorbus/device/cuda/trials.hpp"', False),
        ("bus/session", '#include "tensorbus/bus/domain/domain.hpp"', False),
        ("bus/session", '#include "tensorbus/bus/queue/queue_server.hpp"', True),
        ("bus/session", '#include "tensorbus/bus/publisher.hpp"', True),
        ("bus", '#include "tensorbus/bus/queue/queue_server.hpp"', False),
        ("python", "#include <tensorbus/tensorbus.hpp>", True),
        ("python", '#include "tensorbus/tools/list.hpp"', True),
    ],
)
def test_the_check_itself(folder: str, line: str, refused: bool) -> None:
    assert bool(refused_includes(folder, line)) == refused
