"""Runs pieces of a test in processes of their own, and talks with them.

A function that is handed to `Elsewhere.start` is run by a fresh interpreter, with the modules,
constants and functions that it names. It speaks to the test through `tell` and `hear`, which take
anything that `repr` writes and `ast.literal_eval` reads. What goes wrong there fails the test here.
"""

from __future__ import annotations

import ast
import gc
import inspect
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorbus as tb
    from support.bridge.machines import Machine

# Seconds for what must happen: only a failure ever takes as long.
PATIENCE = 30.0

# Under the address sanitizer (scripts/test --asan), which some things cannot be done beside.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")

# Modules that tests share, which the other processes can import. This one comes first: it imports
# less than the others that have its names.
_SUPPORT = Path(__file__).parent
_MODULES = sorted(
    ".".join(("support", *path.relative_to(_SUPPORT).with_suffix("").parts))
    for path in _SUPPORT.rglob("[a-z]*.py")
)
_HELPERS = [__name__, *(name for name in _MODULES if name != __name__)]


def tell(value: object) -> None:
    """In the other process: says something to the test."""
    print(repr(value), flush=True)


def hear() -> Any:
    """In the other process: what the test says next. The process ends when the test does."""
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return ast.literal_eval(line)


def in_a_fork(function: Callable[[], None]) -> None:
    """Runs a function in a forked child and waits for its end, which must be a good one."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def eventually(condition: Callable[[], object]) -> None:
    """Looks until something is so, for what sends no event: the state of another process."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"never so: {inspect.getsource(condition).strip()}"
        time.sleep(0.002)


def used_bytes() -> int:
    """Bytes of this process's memory on the bus that are in use."""
    import tensorbus as tb

    return tb.participant().arena["used_bytes"]


def unused() -> None:
    """Nothing is left of any item in the memory of this process, nor of what is only garbage."""

    def all_returned() -> bool:
        if used_bytes() != 0:
            gc.collect()  # each time: another thread may have made garbage since
        return used_bytes() == 0

    eventually(all_returned)


@contextmanager
def joined(
    topic: str = "topic",
    *,
    publisher: Mapping[str, Any] | None = None,
    subscriber: Mapping[str, Any] | None = None,
) -> Iterator[tuple[tb.Publisher, tb.Subscriber]]:
    """A publisher and a subscriber in this process that have found each other."""
    import tensorbus as tb

    with (
        tb.Publisher(topic, **(publisher or {})) as sender,
        tb.Subscriber(topic, **{"timeout": PATIENCE, **(subscriber or {})}) as receiver,
    ):
        assert sender.wait_for_subscribers(timeout=PATIENCE)
        assert receiver.wait_for_publishers(timeout=PATIENCE)
        yield sender, receiver


@contextmanager
def publishing(publisher: tb.Publisher[Any], value: Any) -> Iterator[None]:
    """Publishes it again and again, in a thread."""
    ended = threading.Event()

    def publish() -> None:
        while not ended.wait(0.005):
            publisher.publish(value)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def here_first() -> dict[str, str]:
    """The environment of a process that is to find the modules that the tests share."""
    given = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(_SUPPORT.parent), *([given] if given else [])])
    return {**os.environ, "PYTHONPATH": path}


class Process:
    """A function that runs in a process of its own."""

    def __init__(self, script: Path, env: Mapping[str, str], machine: Machine | None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (a pipe could fill up)
        start = subprocess.Popen if machine is None else machine.run
        self._running = start(
            [sys.executable, "-W", "ignore::DeprecationWarning", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**here_first(), **env},
        )
        assert self._running.stdin
        assert self._running.stdout
        self._to = self._running.stdin
        self._from = self._running.stdout.fileno()
        self._heard = b""
        self._ended = False

    @property
    def pid(self) -> int:
        return self._running.pid

    def tell(self, value: object = None) -> None:
        self._to.write(repr(value).encode() + b"\n")
        self._to.flush()

    def hear(self, patience: float = PATIENCE) -> Any:
        """What the process tells next."""
        while b"\n" not in self._heard:
            readable, _, _ = select.select([self._from], [], [], patience)
            chunk = os.read(self._from, 65536) if readable else b""
            assert chunk, f"the other process said nothing more\n{self.errors()}"
            self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\n")
        return ast.literal_eval(line.decode())

    def wait_until_asleep(self) -> None:
        """Waits until its main thread waits for something."""
        status = Path(f"/proc/{self.pid}/stat")
        eventually(lambda: status.read_text().rpartition(") ")[2].startswith("S"))

    def signal_when_asleep(self, number: signal.Signals) -> None:
        """Sends a signal as soon as the main thread waits for something."""
        self.wait_until_asleep()
        self.signal(number)

    def signal(self, number: signal.Signals) -> None:
        self._running.send_signal(number)

    def stop(self) -> None:
        """Stops it (SIGSTOP), and returns when each of its threads is stopped."""
        self.signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def kill(self) -> None:
        """Ends it with SIGKILL, at whatever instruction it is."""
        self._running.kill()
        self._running.wait()
        self._close()

    def kill_if_running(self) -> None:
        if not self._ended:
            with suppress(BrokenPipeError):  # what was told, and never read
                self.kill()

    def finish(self, *, quietly: bool = True) -> None:
        """Waits for its end, which must be without an error; quietly: without a word on stderr."""
        if not self._ended:
            code, errors = self.end()
            assert code == 0, f"exit code {code}\n{errors}"
            assert not (quietly and errors), errors

    def end(self) -> tuple[int, str]:
        """Waits for its end, whichever: its exit code, as subprocess has it, and its stderr."""
        with suppress(BrokenPipeError):  # it has ended already, and says why on stderr
            self._to.close()
        try:
            code = self._running.wait(2 * PATIENCE)  # it may have lost its own patience
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
            code = None
        errors = self.errors()
        self._close()
        assert code is not None, f"the other process did not end\n{errors}"
        return code, errors

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def _close(self) -> None:
        self._ended = True
        self._errors.close()
        self._to.close()
        if self._running.stdout:
            self._running.stdout.close()


class Elsewhere:
    """The other processes of one test."""

    quietly = True  # without a word on stderr

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[Process] = []

    def start(
        self,
        function: Callable[..., None],
        *arguments: object,
        env: Mapping[str, str] | None = None,
        machine: Machine | None = None,
    ) -> Process:
        """Starts it; on a machine of `support.bridge.machines`, if one is given."""
        script = self._folder / f"{function.__name__}_{len(self._processes)}.py"
        script.write_text(_script(function, arguments))
        self._processes.append(Process(script, env or {}, machine))
        return self._processes[-1]

    def run(
        self,
        function: Callable[..., None],
        *arguments: object,
        env: Mapping[str, str] | None = None,
        machine: Machine | None = None,
    ) -> None:
        """Starts it and waits for its end."""
        self.start(function, *arguments, env=env, machine=machine).finish(quietly=self.quietly)

    def finish(self) -> None:
        """Waits for the end of each. If one does not end well, the others are killed."""
        for number, process in enumerate(self._processes, 1):
            try:
                process.finish(quietly=self.quietly)
            except BaseException:
                for other in self._processes[number:]:
                    other.kill_if_running()
                raise


def _script(function: Callable[..., None], arguments: tuple[object, ...]) -> str:
    """A program that calls a function, with all that the function and its arguments name."""
    parts: dict[str, str] = {}
    written = []
    for argument in arguments:
        if isinstance(argument, FunctionType):
            _add(argument.__name__, argument, parts)
            written.append(argument.__name__)
        else:
            written.append(repr(argument))
    _add(function.__name__, function, parts)
    call = f"{function.__name__}({', '.join(written)})"
    return "\n\n".join(
        [
            "from __future__ import annotations",
            *parts.values(),
            f'if __name__ == "__main__":\n    {call}\n',
        ]
    )


def _add(name: str, value: Any, parts: dict[str, str]) -> None:
    if name in parts or value is None:
        return
    module = _module_of(name, value)
    if isinstance(value, ModuleType):
        parts[name] = f"import {value.__name__} as {name}"
    elif module is not None:
        parts[name] = f"from {module} import {name}"
    elif isinstance(value, FunctionType | type):
        _add_source(name, value, parts)
    else:
        parts[name] = f"{name} = {value!r}"


def _module_of(name: str, value: object) -> str | None:
    """Where another process can import it from; None for what is in a test."""
    module = getattr(value, "__module__", None)
    if module in _HELPERS:  # its own: others that have the name may import more
        return str(module)
    for helper in _HELPERS:
        if helper in sys.modules and getattr(sys.modules[helper], name, None) is value:
            return helper
    return module if isinstance(module, str) and not module.startswith("test_") else None


def _add_source(name: str, value: Any, parts: dict[str, str]) -> None:
    parts[name] = ""  # it may name itself
    functions = [value] if isinstance(value, FunctionType) else vars(value).values()
    for function in functions:
        if not isinstance(function, FunctionType):
            continue
        assert not function.__closure__, f"{name} uses variables of its test"
        for used in _names(function.__code__):
            if not used.startswith("__"):
                _add(used, function.__globals__.get(used), parts)
    del parts[name]  # comes after what it names
    parts[name] = textwrap.dedent(inspect.getsource(value))


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    # pytest's own, in the asserts that it rewrote, are no identifiers.
    return {name for name in code.co_names if name.isidentifier()}.union(*map(_names, inner))
