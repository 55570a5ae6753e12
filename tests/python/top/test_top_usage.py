"""What the kernel says of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tensorbus._top.usage import Usage, cpu_percent, usage_of


def test_a_process_that_computes_uses_a_processor() -> None:
    before = usage_of(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    after = usage_of(os.getpid())
    assert before
    assert after
    assert after.cpu_seconds - before.cpu_seconds >= 0.08  # in clock ticks
    percent = cpu_percent(before, after)
    assert percent is not None
    assert percent > 0


def test_memory_that_is_written_is_resident() -> None:
    before = usage_of(os.getpid())
    pages = bytearray(os.urandom(1)) * (64 << 20)
    after = usage_of(os.getpid())
    assert before
    assert after
    assert after.rss_bytes - before.rss_bytes > len(pages) // 2


def test_a_stopped_process_has_figures_and_one_that_is_gone_has_none() -> None:
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        assert usage_of(process.pid)
        process.kill()
    assert usage_of(process.pid) is None


def test_the_name_of_a_program_may_be_anything(tmp_path: Path) -> None:
    folder = tmp_path / "5"
    folder.mkdir()
    numbers = " ".join(str(number) for number in range(4, 53))
    (folder / "stat").write_text(f"5 (a) S 1) (b) R {numbers}\n")
    usage = usage_of(5, tmp_path)
    assert usage
    ticks = os.sysconf("SC_CLK_TCK")
    assert usage[1:] == (22, (14 + 15) / ticks, 24 * os.sysconf("SC_PAGE_SIZE"))


@pytest.mark.parametrize(
    "pair",
    [
        (None, Usage(1.0, 7, 0.0, 0)),
        (Usage(1.0, 7, 0.0, 0), None),
        (Usage(1.0, 7, 0.0, 0), Usage(2.0, 8, 1.0, 0)),
        (Usage(1.0, 7, 0.0, 0), Usage(1.0, 7, 1.0, 0)),
    ],
)
def test_two_readings_that_cannot_be_compared_have_no_percentage(
    pair: tuple[Usage | None, Usage | None],
) -> None:
    assert cpu_percent(*pair) is None
