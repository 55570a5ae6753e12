"""Chooses tests by a regular expression or by what differs from a revision.

    python3 scripts/lib/selection.py BUILD --cpp REGEX
    python3 scripts/lib/selection.py BUILD --changed REVISION

BUILD is a folder that CMake has configured without unity builds; nothing in it need be built. Each
line of the output is a kind and a value: `target` to build, `regex` for `ctest -R`, `path` for
pytest, or `unselected`, a changed file for which no test is known here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What tests the files below a path, beside the folder of the same name in tests/unit or
# tests/python. Tests of what builds upon them are not here.
TESTS = {
    ".pre-commit-config.yaml": ("tests/house/test_contributing.py",),
    "CONTRIBUTING.md": ("tests/house/test_contributing.py",),
    "README.md": ("tests/house/test_docs.py",),
    "SECURITY.md": ("tests/house/test_contributing.py",),
    "bench/": ("tests/house/test_benches.py",),
    "docs/": ("tests/house/test_docs.py", "tests/house/test_site.py"),
    "examples/": ("tests/house/test_examples.py",),
    "include/": ("tests/public", "tests/c", "tests/house/test_abi.py"),
    "python/tensorbus/": ("tests/house/test_python_layers.py",),
    "python/tensorbus/__init__.py": ("tests/python/api",),
    "python/tensorbus/_base/": ("tests/python/api",),
    "python/tensorbus/_codec/": ("tests/python/tensors", "tests/python/messages"),
    "python/tensorbus/_pickling/": ("tests/python/multiprocessing", "tests/python/queues"),
    "python/tensorbus/_pytest_plugin.py": ("tests/python/domain/test_pytest_plugin.py",),
    "python/tensorbus/cuda.py": ("tests/python/cuda",),
    "python/tensorbus/doctor.py": ("tests/python/api/test_doctor.py",),
    "scripts/lib/selection.py": ("tests/house/test_selection.py",),
    "scripts/requirements-lint.txt": ("tests/house/test_contributing.py",),
    "scripts/test": ("tests/house/test_contributing.py",),
    "src/": ("tests/house/test_layers.py",),
    "src/tensorbus/bus/": ("tests/system",),
    "src/tensorbus/bus/queue/": ("tests/model",),
    "src/tensorbus/c/": ("tests/public", "tests/c", "tests/house/test_abi.py"),
    "src/tensorbus/device/": ("tests/cuda",),
    "src/tensorbus/link/ring/": ("tests/model",),
    "src/tensorbus/python/": (
        "tests/house/test_extension_calls.py",
        "tests/python/api",
        "tests/python/queues",
        "tests/python/topics",
    ),
    "tests/c/abi_0.txt": ("tests/house/test_abi.py",),
}

PYTHON = ("tests/python", "tests/house")

# Test programs and what they are made of, in the files that CMake generates.
OUTPUT = re.compile(r"CMakeFiles/(\w+)\.dir/")
ADDED = re.compile(r'^add_test\("?([\w/]+)"? "([^"]+)"', re.MULTILINE)
# GoogleTest's macros.
TEST = re.compile(r"^TEST(_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
INSTANCE = re.compile(r"^INSTANTIATE_TEST_SUITE_P\(\s*(?:DISABLED_)?(\w+),\s*(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class CppTest:
    name: str  # as ctest prints it; the first value of a test with parameters
    pattern: str  # for ctest -R: the tests of its suite
    target: str
    source: str  # relative to ROOT


def cpp_tests(build: Path) -> list[CppTest]:
    sources: dict[str, list[str]] = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        source = Path(command["file"])
        if (target := OUTPUT.search(command["output"])) and source.is_relative_to(ROOT):
            sources.setdefault(target[1], []).append(str(source.relative_to(ROOT)))
    tests = []
    for name, program in ADDED.findall((build / "CTestTestfile.cmake").read_text()):
        target = Path(program).name
        tests += [CppTest(name, f"{name}$", target, source) for source in sources.get(target, [])]
    for target, files in sources.items():
        if target.endswith("_tests"):
            tests += google_tests(target, files)
    return tests


def google_tests(target: str, sources: list[str]) -> list[CppTest]:
    label = target.removesuffix("_tests")
    codes = {source: (ROOT / source).read_text() for source in sources}
    instances: dict[str, list[str]] = {}
    for code in codes.values():
        for prefix, suite in INSTANCE.findall(code):
            instances.setdefault(suite, []).append(prefix)
    tests = []
    for source, code in codes.items():
        for kind, suite, case in TEST.findall(code):
            pattern = rf"{label}/([^/]+/)?{suite}\."
            if kind != "_P":
                tests.append(CppTest(f"{label}/{suite}.{case}", pattern, target, source))
                continue
            for instance in instances.get(suite, []):
                name = f"{label}/{instance}/{suite}.{case}/0"
                tests.append(CppTest(name, pattern, target, source))
    return tests


def changed_files(revision: str) -> list[str]:
    def git(*arguments: str) -> list[str]:
        output = subprocess.check_output(("git", *arguments), cwd=ROOT, text=True)
        return output.splitlines()

    (base,) = git("merge-base", revision, "HEAD")
    others = git("ls-files", "--others", "--exclude-standard")
    return [*git("diff", "--name-only", base), *others]


def python_tests(file: str) -> set[str]:
    """The files and folders of Python tests for a changed file."""
    path = Path(file)
    found = {test for part, tests in TESTS.items() if file.startswith(part) for test in tests}
    if path.is_relative_to("python/tensorbus"):
        found.add(f"tests/python/{path.parts[2].lstrip('_')}")
    if path.is_relative_to("tests/python") or path.is_relative_to("tests/house"):
        if path.name.startswith("test_"):
            found.add(file)
        elif path.name == "conftest.py":
            found.add(str(path.parent))
    return {test for test in found if test.startswith(PYTHON) and (ROOT / test).exists()}


def cpp_folders(file: str, sources: set[str]) -> set[str]:
    """The sources of C++ tests for a changed file, or folders of them."""
    path = Path(file)
    found = {test for part, tests in TESTS.items() if file.startswith(part) for test in tests}
    if file in sources:
        found.add(file)
    elif path.is_relative_to("src/tensorbus"):
        folder = Path("tests/unit", *path.parts[2:3])  # also tests of what builds upon the file
        if not (ROOT / folder).is_dir():
            folder = folder.parent
        found.add(str(folder))
    elif path.is_relative_to("tests"):
        found.add(str(path.parent))
    return {test for test in found if not test.startswith(PYTHON)} - {"tests", "tests/unit"}


def report(tests: list[CppTest], regex: str | None = None) -> None:
    for target in sorted({test.target for test in tests}):
        print("target", target)
    patterns = "|".join(sorted({test.pattern for test in tests}))
    if tests:
        print("regex", regex or f"^({patterns})")


def report_matching(tests: list[CppTest], regex: str) -> None:
    report([test for test in tests if re.search(regex, test.name)], regex)


def report_changed(tests: list[CppTest], files: list[str]) -> None:
    chosen: set[CppTest] = set()
    paths: set[str] = set()
    for file in files:
        folders = cpp_folders(file, {test.source for test in tests})
        of_cpp = {
            test for test in tests for folder in folders if Path(test.source).is_relative_to(folder)
        }
        of_python = python_tests(file)
        if not of_cpp and not of_python:
            print("unselected", file)
        chosen |= of_cpp
        paths |= of_python
    report([*chosen])
    for path in sorted(paths):
        if not any(Path(path).is_relative_to(other) for other in paths - {path}):
            print("path", path)


def main(build: str, option: str, value: str) -> None:
    tests = cpp_tests(Path(build))
    if option == "--cpp":
        report_matching(tests, value)
    else:
        report_changed(tests, changed_files(value))


if __name__ == "__main__":
    main(*sys.argv[1:])
