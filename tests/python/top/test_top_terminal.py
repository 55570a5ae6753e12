"""`tensorbus top` on a terminal beside real processes, its colours, and its picture."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest
from textual.color import Color

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell
from support.repository import ROOT
from support.top import run, session

TOP = "import sys; from tensorbus._top import run; sys.exit(run(None))"
WIDE = {"TERM": "xterm-256color", "COLUMNS": "160", "LINES": "30"}


class Terminal:
    """A terminal with `tensorbus top` in it."""

    def __init__(self, screen: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._screen = screen
        self._told = ""

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def wait_for(self, text: str) -> None:
        """Reads until this was written."""
        while text not in self._told:
            assert select.select([self._screen], [], [], PATIENCE)[0], self._told[-4000:]
            self._told += os.read(self._screen, 1 << 16).decode(errors="replace")


@contextmanager
def terminal() -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        (sys.executable, "-c", TOP),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **WIDE},
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_it_shows_real_processes_and_which_of_them_is_stopped(elsewhere: Elsewhere) -> None:
    def camera() -> None:
        with tb.Publisher("camera/image", history=1) as publisher:
            publisher.publish([1, 2, 3])
            tell("published")
            hear()

    publishing = elsewhere.start(camera)
    assert publishing.hear() == "published"
    with terminal() as top:
        top.wait_for("camera/image")
        publishing.stop()
        top.wait_for("camera_0.py (pid")
        top.wait_for("the process is stopped")
        publishing.signal(signal.SIGCONT)
        top.type("q")
        assert top.process.wait(PATIENCE) == 0
    publishing.tell()


def test_a_domain_that_does_not_exist_is_empty_and_comes_to_be(elsewhere: Elsewhere) -> None:
    def camera() -> None:
        with tb.Publisher("camera/image"):
            hear()

    with terminal() as top:
        top.wait_for("0 processes")
        publishing = elsewhere.start(camera)
        top.wait_for("camera/image")
        publishing.tell()
        top.type("q")
        assert top.process.wait(PATIENCE) == 0


def contrast(one: Color, other: Color) -> float:
    """As in the Web Content Accessibility Guidelines 2.2, which ask for 4.5 at least."""

    def luminance(color: Color) -> float:
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in color.normalized
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
def test_red_is_readable_on_dark_and_on_light(theme: str) -> None:
    async def test() -> None:
        async with session() as top:
            top.app.theme = theme
            await top.pilot.pause()
            red = top.table.get_component_styles("row-table--red").color
            ground = top.table.background_colors[1]
            cursor = top.table.get_component_styles("datatable--cursor").background
            for behind in (ground, ground + cursor):
                assert contrast(red, behind) > 4.5, (red, behind)

    run(test)


def test_the_import_brings_no_textual(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import tensorbus._top  # noqa: F401

        assert "textual" not in sys.modules

    elsewhere.run(look)


def test_the_picture_of_the_page_is_made(tmp_path: Path) -> None:
    picture = tmp_path / "top.svg"
    script = ROOT / "docs" / "site" / "top_picture.py"
    done = subprocess.run(
        (sys.executable, script, picture), capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert done.returncode == 0, done.stderr
    for path in (picture, ROOT / "docs" / "tasks" / "top.svg"):
        told = unescape(re.sub("<[^>]*>", " ", path.read_text())).replace("\N{NO-BREAK SPACE}", " ")
        for text in ("camera/right", "viewer (pid", "has had no room", "camera_right waits"):
            assert text in told
