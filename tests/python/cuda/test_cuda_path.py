"""What a message with a tensor on a GPU asks of the driver, over the stand-in for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tensorbus as tb
from support.cuda.counting_driver import SETUP, WAITS, build, counts
from support.cuda.standin import ENVIRONMENT, LIBRARY, Stream, needs_standin
from support.harness import PATIENCE, Elsewhere, hear, tell
from support.repository import ROOT

pytestmark = needs_standin

BYTES = 1 << 20
PROBE = ROOT / "tests/gpu/probe_driver.py"


def test_no_message_waits_for_the_gpu_or_sets_anything_up(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    def publish(count: int) -> None:
        stream = Stream()
        with tb.Publisher("frames", reliable=True, depth=2) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(2 * count):
                if number == count:
                    before = counts(SETUP)
                loan = publisher.loan(BYTES, "uint8", device="cuda")
                publisher.publish({"x": loan, "number": number}, stream=stream)
                del loan
                hear()
            assert counts(SETUP) == before
            tell(counts(WAITS))

    def receive(count: int) -> None:
        stream = Stream()
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber:
            for number in range(2 * count):
                if number == count:
                    before = counts(SETUP)
                sample = subscriber.receive()
                sample.use_on(stream)
                assert sample.data["number"] == number
                del sample
                tell(number)
            assert counts(SETUP) == before
            tell(counts(WAITS))

    environment = {"TENSORBUS_CUDA_DRIVER": str(build(tmp_path, LIBRARY))}
    publisher = elsewhere.start(publish, 50, env=environment)
    reader = elsewhere.start(receive, 50, env=environment)
    for number in range(100):
        assert reader.hear() == number
        publisher.tell()
    assert publisher.hear() == reader.hear() == {}


def test_the_probe_of_a_driver_gets_answers() -> None:
    done = subprocess.run(
        [sys.executable, PROBE],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert len(answers) == 14
    opened = answers["what a legacy handle of another process opens"]
    assert opened.startswith("0 bytes into a range of 4096, for 4096 on device 0: device 0;")
    assert answers["two mappings of one memfd"].startswith("yes; a wait through one waited")
    assert "b'survives'" in answers["memory outlives its exporter"]
    assert answers["a killed process writes no more"] == "alone: True, forked child: True"
    assert (
        "mapped writable 0, a copy has what was written later: True"
        in answers["read only memory is registered"]
    )
    assert not [text for text in answers.values() if text.startswith("no answer")]
