"""A running process of a pipeline, and the lines that it prints."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tensorbus._up import tree
from tensorbus._up.program import Program

_LAUNCH = Path(__file__).with_name("launch.py")
_MARK = "TENSORBUS_UP"
_MAX_LINE = 65_536  # bytes; a longer line is broken
_MAX_LAST = 16 * _MAX_LINE  # bytes that are read of a process which has ended


class Running:
    """A process, from its start until it and all that it has left behind are gone."""

    def __init__(self, program: Program, number: int, print_line: Callable[[str], None]) -> None:
        """Starts it.

        Args:
            program: what to run.
            number: how many processes the supervisor has started; identifies what this one leaves.
            print_line: is called with each line of its output.

        Raises:
            OSError, ValueError: no process can be made now, or of this command.
        """
        self._print_line = print_line
        self._buffer = bytearray()
        self._mark = f"{_MARK}={os.getpid()}/{number}"
        self._exit: int | None = None
        read_end, write_end = os.pipe()
        self._output = read_end
        try:
            self._process = subprocess.Popen(
                self._launcher(program),
                cwd=program.cwd,
                env={**program.environment(), _MARK: self._mark.partition("=")[2]},
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        os.set_blocking(read_end, False)
        asyncio.get_running_loop().add_reader(read_end, self._read)

    def _launcher(self, program: Program) -> list[str]:
        cpus = ",".join(map(str, sorted(program.cpus))) or "-"
        how = [str(os.getpid()), str(program.nice), cpus]
        return [sys.executable, "-I", "-S", str(_LAUNCH), *how, *program.command]

    @property
    def pid(self) -> int:
        """The pid of the process, which is also the id of its session."""
        return self._process.pid

    def send(self, number: int) -> None:
        """Sends a signal to the process alone; does nothing after its end."""
        if self._exit is None:
            os.kill(self.pid, number)

    def reaped(self, code: int) -> None:
        """The process has ended."""
        self._exit = self._process.returncode = code

    def gone(self) -> int | None:
        """The exit code once nothing is left of the process; until then kills what is left.

        What may not be killed, for example by `sudo`, is left alone.
        """
        if self._exit is None or tree.kill(tree.left_by(self.pid, self._mark)):
            return None
        return self._exit

    def close(self) -> None:
        """Prints what the process has printed last, and closes its output."""
        if self._output < 0:
            return
        asyncio.get_running_loop().remove_reader(self._output)
        for _ in range(_MAX_LAST // _MAX_LINE):
            if not self._read():
                break
        if self._buffer:
            self._emit(bytes(self._buffer))
            self._buffer.clear()
        os.close(self._output)
        self._output = -1

    def _read(self) -> bool:
        """Prints the lines that have arrived; False if none can follow now."""
        chunk = b""
        with suppress(BlockingIOError):
            chunk = os.read(self._output, _MAX_LINE)
            if not chunk:  # closed by the process, which may go on
                asyncio.get_running_loop().remove_reader(self._output)
        self._buffer += chunk
        *lines, rest = self._buffer.split(b"\n")
        for line in lines:
            self._emit(bytes(line))
        self._buffer = rest
        if len(rest) >= _MAX_LINE:
            self._emit(bytes(rest))
            self._buffer = bytearray()
        return bool(chunk)

    def _emit(self, line: bytes) -> None:
        # A progress bar draws over itself: only the last drawing counts.
        shown = line.rstrip(b"\r").rpartition(b"\r")[2]
        self._print_line(shown.decode(errors="replace"))
