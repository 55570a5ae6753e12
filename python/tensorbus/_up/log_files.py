"""The files of `--log-dir`: one for each process, with its older files beside it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tensorbus._up.events import LogLine

_MAX_BYTES = 10 << 20
_OLDER = 5


class LogFiles:
    """`NAME.log` in a folder. At 10 MiB it becomes `NAME.log.1`; five older files are kept."""

    def __init__(self, folder: Path, max_bytes: int = _MAX_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._files: dict[str, BinaryIO] = {}
        self._failed: set[str] = set()
        self._growing: set[str] = set()  # with full files that cannot be renamed

    def write(self, line: LogLine) -> str:
        """Writes a line with its time. Returns why it failed if that is new, else ""."""
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.time_ns // 10**9))
        data = f"{clock}.{line.time_ns // 10**6 % 1000:03} {line.text}\n".encode(errors="replace")
        problem = ""
        try:
            problem = self._leave_full(line.process)
            _append(self._file(line.process), data)
        except OSError as error:
            if line.process in self._failed:
                return ""
            self._failed.add(line.process)
            return f"{self._path(line.process)}: {error.strerror}: lines are lost"
        self._failed.discard(line.process)
        return problem

    def close(self) -> None:
        """Closes all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _path(self, process: str) -> Path:
        return self._folder / f"{process}.log"

    def _leave_full(self, process: str) -> str:
        """Closes a file that is full or was removed. Returns why it cannot, once, else ""."""
        file = self._files.get(process)
        if file is None:
            return ""
        found, path = os.fstat(file.fileno()), self._path(process)
        if found.st_nlink and found.st_size < self._max_bytes:
            return ""
        if found.st_nlink:
            try:
                _make_older(path)
            except OSError as error:
                is_new = process not in self._growing
                self._growing.add(process)
                return f"{path}: {error.strerror}: it becomes larger" if is_new else ""
        self._growing.discard(process)
        self._files.pop(process).close()
        return ""

    def _file(self, process: str) -> BinaryIO:
        file = self._files.get(process)
        if file is None:
            self._folder.mkdir(parents=True, exist_ok=True)  # it may have been removed, too
            file = self._files[process] = self._path(process).open("ab", buffering=0)
        return file


def _make_older(path: Path) -> None:
    """Renames a full file, and the older ones beside it."""
    for number in range(_OLDER, 0, -1):
        older = path if number == 1 else Path(f"{path}.{number - 1}")
        with suppress(FileNotFoundError):
            older.rename(f"{path}.{number}")


def _append(file: BinaryIO, data: bytes) -> None:
    """Appends all of it, or nothing."""
    written = 0
    try:
        while written < len(data):
            written += file.write(data[written:])
    except OSError:
        if written:  # the disk became full in the middle
            file.truncate(os.fstat(file.fileno()).st_size - written)
        raise
