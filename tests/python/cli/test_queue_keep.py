"""``tensorbus queue keep``: queues that outlive the programs that use them."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell

pytest.importorskip("typer", reason="typer is not installed")


@contextmanager
def keeper(*arguments: str) -> Iterator[Popen[str]]:
    """The command, killed at the end if it still runs."""
    command = (sys.executable, "-m", "tensorbus", "queue", "keep", *arguments)
    with Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """Signals it; its status, and the rest of its output."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def put_and_die(name: str) -> None:
    jobs = tb.Queue.open(name, timeout=PATIENCE)
    jobs.put(np.arange(50_000))
    jobs.put("small")
    tell("put")
    hear()


def test_items_outlive_their_producer(elsewhere: Elsewhere) -> None:
    with keeper("jobs", "results", "--maxsize", "2", "--redeliver") as process:
        assert line(process) == "jobs is kept\n"
        assert line(process) == "results is kept\n"
        producer = elsewhere.start(put_and_die, "jobs")
        assert producer.hear() == "put"
        producer.kill()
        jobs = tb.Queue.open("jobs", timeout=PATIENCE)
        assert jobs.maxsize == 2
        with pytest.raises(queue.Full):
            jobs.put(1, block=False)
        assert jobs.get(timeout=PATIENCE).sum() == sum(range(50_000))
        results = tb.Queue.open("results", timeout=PATIENCE)
        results.put(3)
        said = "jobs is closed, 1 item left in it\nresults is closed, 1 item left in it\n"
        assert end(process, signal.SIGTERM) == (0, said, "")
        with pytest.raises(tb.Closed):
            jobs.qsize()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_it_ends_in_order_after_other_signals(number: signal.Signals) -> None:
    with keeper("jobs") as process:
        assert line(process) == "jobs is kept\n"
        assert end(process, number) == (0, "jobs is closed, 0 items left in it\n", "")


def test_a_queue_that_was_shut_down_is_drained_and_made_anew() -> None:
    with keeper("jobs", "--redeliver") as process:
        assert line(process) == "jobs is kept\n"
        jobs = tb.Queue.open("jobs", timeout=PATIENCE)
        lasting = tb.Queue.open("jobs", timeout=PATIENCE, reopen=True)
        for number in range(3):
            jobs.put(number)
        jobs.shutdown()
        assert [jobs.get(), jobs.get()] == [0, 1]
        lasting.get()
        for _ in range(2):
            jobs.task_done()
        with pytest.raises(queue.Full):  # an item is not done yet: it may come back
            lasting.put(3, timeout=0.05)
        lasting.task_done()
        assert line(process) == "jobs was shut down, and is made anew\n"
        lasting.put(4, timeout=PATIENCE)
        assert lasting.get(timeout=PATIENCE) == 4
        with pytest.raises(tb.Closed):
            jobs.get()
        lasting.task_done()
        assert lasting.stats.unfinished == 0


def test_it_is_made_anew_again_and_again() -> None:
    with keeper("jobs") as process:
        line(process)
        lasting = tb.Queue.open("jobs", timeout=PATIENCE, reopen=True)
        for number in range(20):
            lasting.put(number)
            assert lasting.get(timeout=PATIENCE) == number
            tb.Queue.open("jobs", timeout=PATIENCE).shutdown(immediate=number % 2 == 0)
            assert line(process) == "jobs was shut down, and is made anew\n"


def test_the_name_of_another_queue_is_an_error() -> None:
    with tb.Queue(name="taken"), keeper("free", "taken") as process:
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert out == ""  # nothing is kept if one name is taken
        assert err.startswith('tensorbus: queue "taken" already exists, made by ')
        assert err.count("\n") == 1
        with pytest.raises(tb.Timeout):
            tb.Queue.open("free", timeout=0)


def test_tensors_are_shared_on_request() -> None:
    with keeper("jobs", "--shared", "--max-bytes", "1000000") as process:
        assert line(process) == "jobs is kept\n"
        jobs = tb.Queue.open("jobs", timeout=PATIENCE, access="shared")
        assert jobs.max_bytes == 1_000_000
        mine = tb.empty((3,), "int64", shared=True)
        jobs.put(mine)
        jobs.get(timeout=PATIENCE)[:] = 7
        assert list(mine) == [7, 7, 7]


def test_a_wrong_option_makes_no_queue() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "tensorbus", "queue", "keep", "jobs", "--maxsize", "-1"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    assert "maxsize" in done.stderr


def test_it_goes_on_when_nobody_reads_its_output() -> None:
    with keeper("jobs") as process:
        assert line(process) == "jobs is kept\n"
        assert process.stdout is not None
        process.stdout.close()
        lasting = tb.Queue.open("jobs", timeout=PATIENCE, reopen=True)
        for number in range(3):
            lasting.put(number)
            assert lasting.get(timeout=PATIENCE) == number
            tb.Queue.open("jobs", timeout=PATIENCE).shutdown()
            lasting.put("next", timeout=PATIENCE)
            assert lasting.get(timeout=PATIENCE) == "next"


def test_a_killed_command_is_replaced_by_the_next() -> None:
    lasting = None
    for number in range(3):
        with keeper("jobs") as process:
            assert line(process) == "jobs is kept\n"
            if lasting is None:
                lasting = tb.Queue.open("jobs", timeout=PATIENCE, reopen=True)
            lasting.put(number, timeout=PATIENCE)
            assert lasting.get(timeout=PATIENCE) == number
            lasting.put("lost with the command")
            process.kill()
