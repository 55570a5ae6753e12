"""What every test has: a domain of its own, and a way to run things in other processes."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from support.bridge.machines import why_no_machines
from support.harness import Elsewhere
from support.warm import Warm

if TYPE_CHECKING:
    from support.loops import Run

# The program `tensorbus` of the tests' build runs `tensorbus-python`, which is beside this Python.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# The processes that the tests start would inherit that a shell in the background ignores SIGINT,
# and nohup SIGHUP.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, then the longest: so all processes end together.

    Tests with JAX come last, with the rest of their files: it starts threads, and other tests fork.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    jax = {item.path for item in items if has_jax(item)}
    sizes = {path: path.stat().st_size for path in {item.path for item in items}}

    def order(item: pytest.Item) -> tuple[bool, bool, int, Path, bool]:
        first = item.path in jax, item.path not in slow
        return *first, -sizes[item.path], item.path, has_jax(item)

    items.sort(key=order)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("machines") and (why := why_no_machines()):
        pytest.skip(f"machines cannot be made here: {why}")


@pytest.fixture(autouse=True, scope="module")
def imports_are_no_garbage() -> None:
    """Collections look only at what the tests of a file make, not at PyTorch, JAX and the tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Says at the very end that tests between machines were skipped: nothing else tests them."""
    yield
    skipped = [
        report
        for report in terminalreporter.getreports("skipped")
        if "machines" in getattr(report, "keywords", ())  # a whole file that is skipped has none
    ]
    if skipped and (why := why_no_machines()):
        line = f"SKIPPED: {len(skipped)} tests between machines, which cannot be made here: {why}"
        terminalreporter.write_line(line, yellow=True, bold=True)


def has_jax(item: pytest.Item) -> bool:
    return "jax" in item.name or "jax" in getattr(item, "fixturenames", ())


@pytest.fixture(autouse=True)
def domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The default domain of this test and of the processes that it starts."""
    path = str(tmp_path / "domain")
    monkeypatch.setenv("TENSORBUS_DOMAIN", path)
    yield path
    # A participant lives until its process ends: without this, the tests' would add up.
    from tensorbus._base import participant

    participant._shared.clear()


@pytest.fixture
def elsewhere(tmp_path: Path, domain: str) -> Iterator[Elsewhere]:
    """Runs functions in processes of their own; they must end well when the test does."""
    processes = Elsewhere(tmp_path)
    yield processes
    processes.finish()


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """Runs functions of test modules in processes that have imported PyTorch already."""
    warm = Warm(tmp_path_factory.mktemp("warm"))
    yield warm
    warm.finish()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of examples/cpp, which the first who wants them builds."""
    from support.programs.cpp_programs import EXAMPLES, build

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # the folder of all workers
        folder = folder.parent
    with (folder / "cpp.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build(EXAMPLES / "cpp", folder / "cpp")


@pytest.fixture
def torch() -> ModuleType:
    module: ModuleType = pytest.importorskip("torch", reason="PyTorch is not installed")
    return module


@pytest.fixture
def all_views_move(torch: ModuleType) -> None:
    """What moves into memory of the bus does so for views that were made before, too."""
    if not hasattr(torch.UntypedStorage, "_swap_data_ptr_"):
        pytest.skip("this PyTorch cannot swap the memory of a storage (docs/multiprocessing.md)")


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    if kind == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    return kind


@pytest.fixture
def run(loop_kind: str) -> Run:
    """Runs a coroutine in an event loop of each kind."""
    from support.loops import runner

    return runner(loop_kind)
