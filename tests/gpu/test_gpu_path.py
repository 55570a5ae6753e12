"""What a message asks of the driver and of PyTorch, and what this machine says it can do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tensorbus as tb
from support.cuda.counting_driver import SETUP, WAITS, build, counts, library_of_driver
from support.cuda.gpu_tensors import DEVICE, WORDS, Words, not_in_rehearsal, own_stream, torch
from support.harness import PATIENCE, Elsewhere, hear, tell
from tensorbus import doctor

pytestmark = not_in_rehearsal

HERE = Path(__file__).parent
_SYNCHRONISES = ("StreamSynchronize", "EventSynchronize", "CtxSynchronize", "DeviceSynchronize")


def test_the_doctor_finds_that_a_gpu_can_share() -> None:
    found = doctor.examine().cuda
    assert found.driver.can, found.driver.why_not
    assert found.devices
    for device in found.devices:
        assert device.shared_memory.can, device.shared_memory.why_not
        assert device.order.can, device.order.why_not
        assert device.can_share


def publish_when_told(count: int) -> None:
    with tb.Publisher("frames", reliable=True, depth=2) as publisher, own_stream():
        words = Words()
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(2 * count):
            if number == count:
                before = counts(SETUP)
            loan = publisher.loan(WORDS, torch.int32, device=DEVICE)
            publisher.publish({"x": words.fill(loan, number), "number": number})
            del loan
            hear()
        assert counts(SETUP) == before
        tell(counts(WAITS))


def test_no_message_waits_for_the_gpu_or_sets_anything_up(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    def receive(count: int) -> None:
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber, own_stream():
            words = Words()
            for number in range(2 * count):
                if number == count:
                    before = counts(SETUP)
                sample = subscriber.receive()
                words.check(sample.data["x"], number)
                del sample
                tell(number)
            assert counts(SETUP) == before
            tell(counts(WAITS))
            assert words.wrong() == 0

    environment = {"TENSORBUS_CUDA_DRIVER": str(build(tmp_path, library_of_driver()))}
    publisher = elsewhere.start(publish_when_told, 200, env=environment)
    reader = elsewhere.start(receive, 200, env=environment)
    for number in range(400):
        assert reader.hear() == number
        publisher.tell()
    assert publisher.hear() == reader.hear() == {}


def traced(count: int, publishes: bool) -> None:
    """Tells how often PyTorch's profiler saw each kind of wait while messages went."""
    from torch.profiler import ProfilerActivity, profile

    with (
        tb.Publisher("there" if publishes else "back", reliable=True) as publisher,
        tb.Subscriber("back" if publishes else "there", timeout=PATIENCE) as subscriber,
        own_stream(),
    ):
        words = Words()
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
            for seed in range(count):
                if publishes:
                    loan = publisher.loan(WORDS, torch.int32, device=DEVICE)
                    publisher.publish(words.fill(loan, seed))
                    del loan
                words.check(subscriber.receive().data, seed)
                if not publishes:
                    loan = publisher.loan(WORDS, torch.int32, device=DEVICE)
                    publisher.publish(words.fill(loan, seed))
                    del loan
        assert words.wrong() == 0
        found = Counter(
            event.name
            for event in trace.events()
            if any(wait in event.name for wait in _SYNCHRONISES)
        )
        tell(dict(found))
        hear()


def test_a_trace_shows_no_wait(elsewhere: Elsewhere) -> None:
    ends = [elsewhere.start(traced, 100, publishes) for publishes in (True, False)]
    for end in ends:
        waits = end.hear(120)
        # The profiler itself waits for the device when it begins and ends.
        waits.pop("cudaDeviceSynchronize", None)
        assert waits == {}
    for end in ends:
        end.tell()


@pytest.mark.timeout(150)
def test_compute_sanitizer_finds_nothing(domain: str) -> None:
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(sanitizer).exists():
        pytest.skip("compute-sanitizer is not installed")
    # A call that is tried, and refused, is no error of the program.
    options = ["--target-processes", "all", "--error-exitcode", "9", "--report-api-errors", "no"]
    done = subprocess.run(
        [sanitizer, *options, sys.executable, str(HERE / "small_run.py")],
        env={**os.environ, "TENSORBUS_DOMAIN": domain},
        capture_output=True,
        text=True,
        timeout=140,
    )
    if "Device not supported" in done.stdout:
        pytest.skip("compute-sanitizer does not support this device")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
