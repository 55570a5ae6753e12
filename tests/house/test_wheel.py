"""The wheel, as somebody gets it who has nothing else; and the same files without Python.

TENSORBUS_TEST_WHEEL names the wheel: scripts/test built it, and installed it for the other tests.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from support.harness import SANITIZED
from support.repository import ROOT

CONSUMER = ROOT / "tests" / "consumer"
WHEEL = os.environ.get("TENSORBUS_TEST_WHEEL", "")
VERSION = (ROOT / "VERSION").read_text().strip()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not WHEEL, reason="TENSORBUS_TEST_WHEEL names no wheel"),
    pytest.mark.skipif(SANITIZED, reason="the wheel is without sanitizers"),
]

# Of others: those of these names, which every Linux for desktops, servers and robots has.
SYSTEM_LIBRARIES = {"libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0"}
# auditwheel does not see that the program finds the library of the wheel, once it is installed.
ITSELF = ("--exclude", "libtensorbus.so.0")
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

TALK = """
import array
import tensorbus as tb
with (
    tb.Publisher("numbers") as publisher,
    tb.Subscriber("doubled", timeout=100, library="dlpack") as subscriber,
):
    assert publisher.wait_for_subscribers(timeout=100)
    publisher.publish(array.array("f", [0.5, 1.5, -2.0]))
    print(memoryview(subscriber.receive().data).tolist())
"""


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


class Environment:
    """A virtual environment with the wheel in it, and with what that depends on."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, with_pip=True)
        self.scripts = folder / "bin"
        self.pip("install", wheel)
        (self.package,) = folder.glob("lib/python*/site-packages/tensorbus")

    def pip(self, *arguments: str | Path) -> None:
        run(self.scripts / "python", "-I", "-m", "pip", *arguments)

    def python(self, *arguments: str | Path) -> tuple[str | Path, ...]:
        """A command which sees this environment alone."""
        return self.scripts / "python", "-I", *arguments

    def config(self, option: str) -> str:
        return run(*self.python(self.scripts / "tensorbus-config", option))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the tag under which an index takes it."""
    folder = tmp_path_factory.mktemp("audited")
    run(sys.executable, "-m", "auditwheel", "repair", *ITSELF, "--wheel-dir", folder, WHEEL)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("clean"), wheel)


def contents(wheel: Path | str) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if not name.endswith("/") and ".dist-info/" not in name
        }


def test_an_index_takes_the_wheel_as_it_is(wheel: Path) -> None:
    """auditwheel had nothing to graft, to rename or to patch."""
    assert "manylinux_" in wheel.name
    assert contents(wheel) == contents(WHEEL)


def test_it_has_the_files_of_the_page_of_tensorbus_view() -> None:
    files = (ROOT / "python/tensorbus/_view/static").iterdir()
    wanted = {f"tensorbus/_view/static/{file.name}" for file in files}
    assert {name for name in contents(WHEEL) if "/static/" in name} == wanted


def test_it_has_the_completion_of_the_shells_where_they_look_for_it(clean: Environment) -> None:
    scripts = {
        "bash-completion/completions/tensorbus": "tensorbus.bash",
        "zsh/site-functions/_tensorbus": "_tensorbus",
        "fish/vendor_completions.d/tensorbus.fish": "tensorbus.fish",
    }
    data = {name.partition("/data/share/")[2] for name in contents(WHEEL) if ".data/data" in name}
    assert data == set(scripts)
    for name, script in scripts.items():
        installed = clean.scripts.parent / "share" / name
        assert installed.read_text() == (ROOT / "src/tensorbus/cli/completion" / script).read_text()


def test_what_is_compiled_needs_libc_and_libstdcxx_alone(clean: Environment) -> None:
    libraries = [*clean.package.glob("lib/*.so*"), *clean.package.glob("*.so")]
    assert len(libraries) == 2
    for library in (*libraries, clean.scripts / "tensorbus"):
        dynamic = run("readelf", "--dynamic", "--wide", library)
        if library.name.startswith("_core"):  # auditwheel does not look (ITSELF)
            assert re.search(r"path: \[\$ORIGIN/lib\]", dynamic)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", dynamic))
        assert needed - SYSTEM_LIBRARIES - LOADERS <= {"libtensorbus.so.0"}


def test_bytes_go_from_one_process_to_another(clean: Environment) -> None:
    run(*clean.python(ROOT / "scripts" / "lib" / "smoke.py"))


def build(source: Path, folder: Path, cmake_package: str | Path) -> Path:
    """The folder of a CMake project's programs."""
    run("cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-Dtensorbus_DIR={cmake_package}")
    run("cmake", "--build", folder)
    return folder


def test_tensors_go_both_ways_between_cpp_and_python(clean: Environment, tmp_path: Path) -> None:
    folder = build(CONSUMER, tmp_path / "build", clean.config("--cmakedir"))
    with subprocess.Popen([folder / "consumer", "double"], stdin=subprocess.PIPE) as cpp:
        assert run(*clean.python("-c", TALK)) == "[1.0, 3.0, -4.0]"
        cpp.communicate()
        assert cpp.returncode == 0


def test_a_package_of_another_project_builds_against_it(clean: Environment, tmp_path: Path) -> None:
    """scikit-build-core finds it by itself, through the entry point."""
    pins = ROOT / "scripts" / "requirements-build.txt"
    clean.pip("install", "--constraint", pins, "scikit-build-core")
    source = shutil.copytree(CONSUMER, tmp_path / "consumer")
    clean.pip("install", "--no-deps", "--no-build-isolation", source)
    assert run(clean.package.parent / "consumer" / "consumer") == VERSION


def pkg_config(folder: Path, *options: str) -> list[str]:
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    return shlex.split(run("pkg-config", *options, "tensorbus", env=env))


def compile_with_pkg_config(folder: Path, program: Path, *options: str) -> Path:
    run(
        *("g++", "-std=c++20", CONSUMER / "main.cpp", "-o", program),
        *pkg_config(folder, "--cflags", "--libs"),
        *options,
    )
    return program


@pytest.fixture
def moved(clean: Environment, tmp_path: Path) -> Path:
    """The package at another place."""
    shutil.copytree(clean.package, tmp_path / "before")
    return (tmp_path / "before").rename(tmp_path / "moved")


def test_cmake_finds_it_where_it_was_moved(moved: Path, tmp_path: Path) -> None:
    program = build(CONSUMER, tmp_path / "build", moved / "lib/cmake/tensorbus") / "consumer"
    assert run(program) == VERSION
    assert str(moved / "lib") in run("readelf", "--dynamic", program)


def test_pkg_config_finds_it_where_it_was_moved(moved: Path, tmp_path: Path) -> None:
    folder = moved / "lib/pkgconfig"
    assert pkg_config(folder, "--modversion") == [VERSION]
    assert run(compile_with_pkg_config(folder, tmp_path / "program")) == VERSION


def test_the_config_command_says_what_a_compiler_is_told(
    clean: Environment, tmp_path: Path
) -> None:
    told = [word for option in ("--cflags", "--libs") for word in clean.config(option).split()]
    run("g++", "-std=c++20", CONSUMER / "main.cpp", "-o", tmp_path / "program", *told)
    assert run(tmp_path / "program") == VERSION
    folder = Path(clean.config("--pkgconfigdir"))
    same = map(os.path.normpath, pkg_config(folder, "--cflags", "--libs"))
    assert sorted(told) == sorted(same)


def test_the_entry_point_for_pkg_config_names_its_folder(clean: Environment) -> None:
    program = (
        "from importlib.metadata import entry_points\n"
        "from importlib.resources import files\n"
        "(entry,) = entry_points(group='pkg_config', name='tensorbus')\n"
        "print(files(entry.value) / 'tensorbus.pc')"
    )
    assert Path(run(*clean.python("-c", program))).is_file()


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `cmake --install` makes, without Python; and then it was moved."""
    binaries = os.environ.get("TENSORBUS_TEST_BIN_DIR")
    if not binaries:
        pytest.skip("TENSORBUS_TEST_BIN_DIR names no build of the library")
    folder = tmp_path_factory.mktemp("prefix")
    options = ("-G", "Ninja", "-D", "TENSORBUS_BUILD_COMMAND=OFF")
    run("cmake", "-S", ROOT, "-B", folder / "build", *options)
    # The library of the tests' build, which is configured for the wheel: compiling takes minutes.
    for library in Path(binaries).parent.glob("libtensorbus.so*"):
        shutil.copy(library, folder / "build", follow_symlinks=False)
    run("cmake", "--install", folder / "build", "--prefix", folder / "before")
    return (folder / "before").rename(folder / "after")


def test_cmake_installs_the_layout_of_the_wheel(clean: Environment, prefix: Path) -> None:
    def layout(folder: Path) -> set[str]:
        return {
            # For each kind of build one file, which has its name.
            re.sub(r"Targets-\w+", "Targets-*", str(path.relative_to(folder)))
            for part in ("include", "lib")
            for path in (folder / part).rglob("*")
            if path.is_file()
        }

    assert layout(prefix) - layout(clean.package) == {"lib/libtensorbus.so"}
    assert not layout(clean.package) - layout(prefix)


def test_a_prefix_can_be_moved(prefix: Path, tmp_path: Path) -> None:
    program = build(CONSUMER, tmp_path / "build", prefix / "lib/cmake/tensorbus") / "consumer"
    assert run(program) == VERSION
    program = compile_with_pkg_config(prefix / "lib/pkgconfig", tmp_path / "program")
    env = {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}
    assert run(program, env=env) == VERSION
