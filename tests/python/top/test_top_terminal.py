"""`tensorbus top` on a terminal beside real processes, its colours, and its picture."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from textual.color import Color

import tensorbus as tb
from support.bridge.bridges import two_machines
from support.harness import PATIENCE, Elsewhere, hear, publishing, tell
from support.repository import ROOT
from support.screens.top import run, session
from support.screens.top_terminal import WIDE, ignoring, terminal


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
        assert top.wait_for_end() == 0
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
        assert top.wait_for_end() == 0


def test_it_shows_both_of_two_machines(tmp_path: Path) -> None:
    with (
        two_machines(tmp_path) as (here, there),
        tb.Publisher("camera/image", domain=here.domain) as publisher,
        tb.Subscriber("camera/image", domain=there.domain),
        tb.Publisher("features", domain=there.domain),
        publishing(publisher, b"x" * 1000),
        terminal(there.domain) as top,
    ):
        top.wait_for("camera/image")
        top.wait_for("features")
        top.type("4")
        top.wait_for("through")
        top.type("q")
        assert top.wait_for_end() == 0


def test_it_ends_when_it_is_told_to_by_a_signal() -> None:
    with terminal() as top:
        top.wait_for("0 processes")
        top.process.terminate()
        assert top.wait_for_end() == 0
        top.wait_for("\x1b[?1049l")  # the terminal's other screen is back


@pytest.mark.parametrize("closed", ["stdin", "stderr"])
def test_without_a_terminal_it_says_what_it_needs(closed: str) -> None:
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stderr": theirs, closed: subprocess.PIPE}
    with subprocess.Popen(
        (sys.executable, "-m", "tensorbus", "top"), **streams, env={**os.environ, **WIDE}
    ) as top:
        os.close(theirs)
        assert top.wait(PATIENCE) == 1
        said = top.stderr.read() if top.stderr else os.read(ours, 1 << 16)
    os.close(ours)
    assert b"top needs a terminal for its keys (standard input) and its screen" in said


@pytest.mark.parametrize("kind", ["dumb", "unknown", ""])
def test_a_terminal_that_cannot_be_drawn_on_is_named(kind: str) -> None:
    with terminal(TERM=kind) as top:
        assert top.wait_for_end() == 1
        top.wait_for(f"top cannot draw on a terminal of the type TERM='{kind}'")


def test_it_ends_with_its_terminal_also_where_sighup_is_ignored() -> None:
    with ignoring(signal.SIGHUP), terminal() as top:
        top.wait_for("0 processes")
        top.hang_up()
        assert top.process.wait(PATIENCE) == 128 + signal.SIGHUP


def test_a_signal_ends_it_also_where_the_terminal_takes_no_output() -> None:
    with terminal(LINES="500", COLUMNS="500") as top:
        top.wait_until_stuck()
        top.process.terminate()
        assert top.process.wait(PATIENCE) == 128 + signal.SIGTERM


def test_a_signal_before_the_first_picture_ends_it(elsewhere: Elsewhere) -> None:
    def get_one() -> None:
        from tensorbus._top.app import Top

        top = Top(tb.inspect)
        top.end(signal.SIGTERM)  # ends the process with another exit code if top goes on
        top.run(headless=True)

    elsewhere.run(get_one)


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
