"""What older kernels and sandboxes lack: the bus does without, or says what is missing."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.repository import ROOT

OPTIONAL = ["pidfd", "future-write", "populate", "newer-than-5.4"]
NEEDED = {
    "memfd": "memfd_create(MFD_ALLOW_SEALING): Function not implemented",
    "seals": "memfd_create(MFD_ALLOW_SEALING): Invalid argument",
    "sealing": "fcntl(F_ADD_SEALS) of a memfd: Operation not permitted",
}

HOLDER = """
    import tensorbus as tb

    with tb.Publisher("answer") as publisher:
        sample = tb.Subscriber("image", timeout=30).receive()
        publisher.wait_for_subscribers()
        publisher.publish(sample.data + 1)
        input()
"""


def running(program: str, *without: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", ROOT / "tests/python/support/without.py", *without, "--"]
    return subprocess.Popen(
        [*command, sys.executable, "-c", dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("without", [*[[one] for one in OPTIONAL], OPTIONAL], ids=" ".join)
def test_a_process_takes_part_without_them_and_its_death_is_seen(without: list[str]) -> None:
    with (
        tb.Publisher("image", reliable=True) as publisher,
        tb.Subscriber("answer", timeout=PATIENCE) as answers,
        running(HOLDER, *without) as holder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        image = publisher.loan((1024, 1024), dtype="uint8")
        image[:] = 7
        publisher.publish(image)
        del image
        assert (answers.receive().data == 8).all()
        assert publisher.stats["bytes_in_flight"] > 0
        holder.kill()
        eventually(lambda: publisher.stats["bytes_in_flight"] == 0)


@pytest.mark.parametrize("missing", NEEDED)
def test_what_cannot_be_done_without_is_named(missing: str) -> None:
    program = """
        import tensorbus as tb
        from tensorbus.doctor import examine

        host = examine().host
        assert not host.can_share
        print(host.shared_memory.why_not)
        try:
            tb.Publisher("image").loan((1,), dtype="uint8")
        except tb.Unsupported as error:
            print(error)
    """
    with running(program, missing) as process:
        said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    lines = said.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(NEEDED[missing])
        assert "seccomp" in line


def test_the_doctor_tells_of_a_missing_pidfd() -> None:
    program = """
        from tensorbus.doctor import examine

        print(examine().host.pidfd.why_not)
    """
    with running(program, "pidfd") as process:
        said, _ = process.communicate(timeout=PATIENCE)
    assert said.startswith("pidfd_open: Function not implemented. Tensorbus needs this call")


def test_a_pool_of_workers_sees_and_brings_about_deaths_without_pidfds() -> None:
    program = """
        import signal
        import time

        import tensorbus as tb

        with tb.WorkerPool(signal.raise_signal, workers=1) as pool:
            print(pool.map([signal.SIGCONT]))
            try:
                pool.map([signal.SIGKILL])
            except tb.WorkerDied as error:
                print(error)
            print(pool.map([signal.SIGCONT]))
        with tb.WorkerPool(time.sleep, workers=1) as pool:
            pool.map([0])
            sleeping = pool.submit(1000)
            pool.terminate()
            print(sleeping.exception() is not None)
    """
    with running(program, "pidfd") as process:
        said, _ = process.communicate(timeout=PATIENCE)
    first, died, again, terminated = said.splitlines()
    assert (first, again, terminated) == ("[None]", "[None]", "True")
    assert "SIGKILL" in died
