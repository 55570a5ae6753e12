"""A running `tensorbus up`, and what is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.harness import PATIENCE
from tensorbus._cli.records import KINDS


class Up:
    """A running `tensorbus up --json`, and the lines that it has printed."""

    def __init__(self, file: Path, *options: str) -> None:
        command = [sys.executable, "-m", "tensorbus", "up", "--json", *options, str(file)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.seen: list[dict[str, Any]] = []

    def __enter__(self) -> Up:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it at once, if it runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=PATIENCE)

    @property
    def pid(self) -> int:
        return self.process.pid

    def until(self, **fields: Any) -> dict[str, Any]:
        """The next line that has these fields; `text` and `cause` need only contain theirs."""
        assert self.process.stdout
        for line in self.process.stdout:
            found = self._see(line)
            if all(_matches(found.get(key), value) for key, value in fields.items()):
                return found
        assert self.process.stderr
        raise AssertionError(f"never {fields}: {self.seen} {self.process.stderr.read()}")

    def state(self, process: str, state: str) -> dict[str, Any]:
        """The next change of a process to a state."""
        return self.until(kind="process_state", process=process, state=state)

    def printed(self, process: str) -> list[str]:
        """The lines that a process has printed so far."""
        found = (line for line in self.seen if line["kind"] == "log")
        return [line["text"] for line in found if line["process"] == process]

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, list[dict[str, Any]]]:
        """Signals it; its exit status, and its remaining lines."""
        self.process.send_signal(number)
        return self.finish()

    def finish(self) -> tuple[int, list[dict[str, Any]]]:
        """Waits for its end; its exit status, and its remaining lines."""
        assert self.process.stdout
        lines = [self._see(line) for line in self.process.stdout]
        return self.process.wait(PATIENCE), lines

    def _see(self, line: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(line)
        assert (*found,) == ("kind", *KINDS[found["kind"]].fields)
        self.seen.append(found)
        return found


def _matches(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, str) and isinstance(found, str) and wanted.startswith("~"):
        return wanted[1:] in found
    return bool(found == wanted)


def alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    return state(pid) not in "ZX"


def state(pid: int) -> str:
    """The state of a process in `/proc/PID/stat`, for example "S"; "X" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "X"


def environment_has(text: str) -> list[int]:
    """The pids of living processes whose environment contains a text."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                data = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if text.encode() in data:
                found.append(int(name))
    return found
