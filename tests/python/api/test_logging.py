"""What the core has to say goes to the logger "tensorbus.core"."""

from __future__ import annotations

import re
from pathlib import Path

from support.harness import PATIENCE, Elsewhere, eventually, hear, in_a_fork, tell
from support.shortage import no_descriptor_for_a_peer

# What meets the limit first, a peer that connects or a look at the domain, begins the line.
SHORTAGE = "(trying again until there is room)"


def records() -> list[tuple[str, str, str]]:
    """Logger, level and text of what is logged from now on."""
    import logging

    found = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append((record.name, record.levelname, record.getMessage()))

    logging.getLogger("tensorbus").addHandler(Keep())
    return found


def test_a_line_of_the_core_is_logged_while_the_main_thread_sleeps(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import logging
        import threading

        came = threading.Event()
        found = records()
        logging.getLogger("tensorbus.core").addFilter(lambda record: came.set() or True)
        with no_descriptor_for_a_peer():
            assert came.wait(PATIENCE)
        eventually(lambda: found)
        for name, level, text in found:  # one, and on a slow machine one more each 10 s
            assert (name, level) == ("tensorbus.core", "WARNING")
            assert text.endswith(SHORTAGE)

    elsewhere.run(look)


def test_without_a_handler_the_line_is_on_stderr(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import logging

        assert not logging.getLogger().handlers
        with no_descriptor_for_a_peer():
            tell("waits")
            hear()

    other = elsewhere.start(look)
    assert other.hear() == "waits"
    eventually(lambda: SHORTAGE in other.errors())
    other.tell("go on")
    other.finish(quietly=False)


def test_a_line_that_is_being_logged_at_the_end_is_logged(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import atexit
        import logging
        import threading
        import time

        came, ends = threading.Event(), threading.Event()
        import tensorbus as tb

        class Slow(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                came.set()
                assert ends.wait(PATIENCE)
                time.sleep(0.2)  # here a thread that nobody waits for would be cut off
                tell(record.getMessage())

        logging.getLogger("tensorbus").addHandler(Slow())
        tb.participant()
        with no_descriptor_for_a_peer():
            assert came.wait(PATIENCE)
        atexit.register(ends.set)

    other = elsewhere.start(look)
    assert other.hear().endswith(SHORTAGE)
    other.finish()


def test_a_forked_child_logs_its_own_lines(elsewhere: Elsewhere, tmp_path: Path) -> None:
    def look(domain: str) -> None:
        found = records()

        def child() -> None:
            found.clear()
            with no_descriptor_for_a_peer(domain):
                eventually(lambda: found)
            assert len(found) == 1

        in_a_fork(child)
        with no_descriptor_for_a_peer():
            eventually(lambda: found)
        in_a_fork(child)

    elsewhere.run(look, str(tmp_path / "child"))


def test_forks_while_lines_are_logged_end_well(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import logging
        import os

        found = records()
        for _ in range(20):
            with no_descriptor_for_a_peer():
                in_a_fork(lambda: logging.getLogger("tensorbus").warning("%d", os.getpid()))
        assert all(name.startswith("tensorbus") for name, _, _ in found)

    elsewhere.run(look)


def test_an_error_of_a_handler_ends_nothing(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import logging

        import tensorbus as tb

        def refuse(record: logging.LogRecord) -> bool:
            raise ValueError("expected")

        logging.getLogger("tensorbus.core").addFilter(refuse)
        with no_descriptor_for_a_peer():
            tell("waits")
            hear()
        with tb.Queue() as queue:
            queue.put(7)
            assert queue.get(timeout=PATIENCE) == 7

    other = elsewhere.start(look)
    assert other.hear() == "waits"
    eventually(lambda: re.search(f"tensorbus: .*{re.escape(SHORTAGE)}", other.errors()))
    other.tell("go on")
    other.finish(quietly=False)
