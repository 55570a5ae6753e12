"""A few messages between two processes, small enough for compute-sanitizer.

    compute-sanitizer --target-processes all --error-exitcode 9 python tests/gpu/small_run.py

TENSORBUS_DOMAIN names the domain.
"""

from __future__ import annotations

import subprocess
import sys

import torch

import tensorbus as tb

COUNT = 20
WORDS = 1 << 14


def publish() -> None:
    with tb.Publisher("small", reliable=True) as publisher:
        indices = torch.arange(WORDS, dtype=torch.int32, device="cuda")
        assert publisher.wait_for_subscribers(timeout=120)
        for seed in range(COUNT):
            loan = publisher.loan(WORDS, torch.int32, device="cuda")
            publisher.publish({"loan": torch.add(indices, seed, out=loan), "copy": indices + seed})
            del loan
        sys.stdin.readline()  # until the reader is done


def receive() -> None:
    publisher = subprocess.Popen([sys.executable, __file__, "publish"], stdin=subprocess.PIPE)
    with tb.Subscriber("small", timeout=120) as subscriber:
        indices = torch.arange(WORDS, dtype=torch.int32, device="cuda")
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        for seed in range(COUNT):
            message = subscriber.receive().data
            for tensor in message.values():
                wrong += (tensor - indices != seed).sum()
        assert int(wrong) == 0
    publisher.communicate(b"\n", timeout=120)
    assert publisher.returncode == 0


if __name__ == "__main__":
    publish() if sys.argv[1:] == ["publish"] else receive()
