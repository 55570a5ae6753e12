"""Starts processes of a pipeline again when their files change (`tensorbus up --watch`)."""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from watchfiles import Change, DefaultFilter, awatch

from tensorbus._up.program import Program

_PAUSE = 0.2  # seconds without a change, after which a file is taken for complete
_STEP = 50  # ms between two looks at changes
_LOOK = 1000  # ms after which folders are looked for that have come or gone

_Identity = tuple[int, int] | None


@dataclass(frozen=True)
class Files:
    """Files of a process."""

    pattern: str
    """Their absolute paths; `*` also matches `/`."""
    folder: str
    """A folder that has all of them."""
    below: bool
    """They may be in folders below it, too."""

    def has(self, path: str) -> bool:
        return fnmatchcase(path, self.pattern)


def files_of(program: Program) -> Iterator[Files]:
    """Its program, if that is named by a path, Python files of its command, and `watch`.

    Where links lead to, too.
    """
    for number, word in enumerate(program.command):
        if word.endswith(".py") or (number == 0 and "/" in word):
            yield from map(_file, _paths(program.cwd / word))
    for entry in program.watch:
        parts = Path(os.path.expanduser(entry)).parts
        fixed = [*takewhile(lambda part: not glob.has_magic(part), parts)]
        for path in _paths(program.cwd.joinpath(*fixed)):
            if len(fixed) < len(parts):
                yield Files(os.path.join(glob.escape(path), *parts[len(fixed) :]), path, True)
            elif entry.endswith("/") or os.path.isdir(path):
                yield Files(os.path.join(glob.escape(path), "*"), path, True)
            else:
                yield _file(path)


def _paths(path: Path) -> list[str]:
    """A path without `..`, and the one that it leads to, if that is another one."""
    real = os.path.realpath(path)
    named = real if ".." in path.parts else os.path.normpath(path)
    return [*dict.fromkeys([named, real])]


def _file(path: str) -> Files:
    return Files(glob.escape(path), os.path.dirname(path), False)


class _Filter(DefaultFilter):
    """Leaves out caches and the like, but no file that is named, and the log files."""

    def __init__(self, files: Iterable[Files], ignored: Path | None) -> None:
        folders = [os.path.abspath(ignored), os.path.realpath(ignored)] if ignored else []
        super().__init__(ignore_paths=[os.path.join(folder, "") for folder in folders])
        self._named = [each for each in files if not each.below]

    def __call__(self, change: Change, path: str) -> bool:
        return any(each.has(path) for each in self._named) or super().__call__(change, path)


class Watcher:
    """Calls a function for each process whose files have changed, once for changes in a row.

    Args:
        programs: the processes.
        on_change: is called with a process and the path of a file that has changed.
        on_problem: is called with a text if changes cannot be noticed.
        ignored: a folder whose files do not count.
    """

    def __init__(
        self,
        programs: Iterable[Program],
        on_change: Callable[[Program, str], None],
        on_problem: Callable[[str], None],
        ignored: Path | None = None,
    ) -> None:
        self._files = [(program, [*files_of(program)]) for program in programs]
        self._on_change = on_change
        self._on_problem = on_problem
        self._filter = _Filter((each for _, own in self._files for each in own), ignored)
        self._due: dict[str, asyncio.TimerHandle] = {}  # by the name of the process

    async def run(self) -> None:
        """Watches until it is cancelled."""
        await asyncio.gather(self._watch(True), self._watch(False))

    async def _watch(self, below: bool) -> None:
        """Watches folders, and watches them anew when one has come, gone, or become another one."""
        wanted = sorted({e.folder for _, own in self._files for e in own if e.below is below})
        if not wanted:
            return
        there: dict[str, _Identity] = {}
        while True:
            before, there = there, {folder: _identity(folder) for folder in wanted}
            for folder, identity in there.items():
                if identity is None and before.get(folder, (0, 0)) is not None:
                    self._on_problem(f"there is no folder {folder}: it is watched once there is")
                elif before and identity and identity != before[folder]:
                    self._changed(_files_in(folder))
            found = [folder for folder, identity in there.items() if identity]
            try:
                await self._until_others(found, there, below)
            except (OSError, RuntimeError) as error:
                return self._on_problem(f"cannot watch files: {error}")

    async def _until_others(
        self, found: list[str], there: dict[str, _Identity], below: bool
    ) -> None:
        if not found:
            await asyncio.sleep(_LOOK / 1000)
            return
        async for changes in awatch(
            *found,
            watch_filter=self._filter,
            step=_STEP,
            rust_timeout=_LOOK,
            yield_on_timeout=True,
            recursive=below,
        ):
            self._changed([path for _, path in changes])
            if any(_identity(folder) != identity for folder, identity in there.items()):
                return

    def _changed(self, paths: list[str]) -> None:
        loop = asyncio.get_running_loop()
        for program, own in self._files:
            mine = [path for path in paths if any(each.has(path) for each in own)]
            if not mine:
                continue
            if timer := self._due.pop(program.name, None):
                timer.cancel()
            path = os.path.relpath(min(mine), program.cwd)
            self._due[program.name] = loop.call_later(_PAUSE, self._on_change, program, path)


def _files_in(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:  # it has gone, or may not be read
        return []


def _identity(folder: str) -> _Identity:
    """Which folder it is; None: there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if os.path.isdir(folder) else None
