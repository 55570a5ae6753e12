"""From nothing to the first message, in a fresh process each time, step by step.

A publisher waits in this process. The steps are those of a program that receives one array: it
imports NumPy, imports the bus, becomes a participant, makes a subscriber and waits until that is
connected, and has the sample in hand. `whole` is from before the
process is started to the moment at which it has the tensor, the interpreter's own start included.
Beside it a program that only imports NumPy.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from tempfile import TemporaryDirectory

import numpy as np

import tensorbus as tb
from harness.report import is_quick, report

PROGRAM = """
import sys, time
stamps = [time.perf_counter_ns()]
import numpy
stamps.append(time.perf_counter_ns())
import tensorbus as tb
stamps.append(time.perf_counter_ns())
tb.participant(sys.argv[1])
stamps.append(time.perf_counter_ns())
subscriber = tb.Subscriber("start", domain=sys.argv[1], timeout=30)
subscriber.wait_for_publishers(timeout=30)
stamps.append(time.perf_counter_ns())
subscriber.receive().data
stamps.append(time.perf_counter_ns())
import json
print(json.dumps(stamps))
"""
NUMPY = "import time, numpy, json; print(json.dumps([time.perf_counter_ns()]))"
STEPS = ["numpy_ns", "import_ns", "participant_ns", "connect_ns", "first_message_ns"]


def stamps_of(program: str, *arguments: str) -> tuple[int, list[int]]:
    begin = time.perf_counter_ns()
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return begin, json.loads(done.stdout)


def main() -> None:
    quick = is_quick(__doc__)
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        tb.Publisher("start", domain=domain, history=1) as publisher,
    ):
        publisher.publish(np.zeros((1080, 1920, 3), np.uint8))
        stamps_of(PROGRAM, domain)  # what it reads is in the page cache from here on
        for repetition in range(2 if quick else 9):
            begin, stamps = stamps_of(PROGRAM, domain)
            lengths = (after - before for before, after in itertools.pairwise(stamps))
            steps = dict(zip(STEPS, lengths, strict=True))
            report("first message", repetition, whole_ns=stamps[-1] - begin, **steps)
            begin, stamps = stamps_of(NUMPY)
            report("import numpy", repetition, whole_ns=stamps[-1] - begin)


if __name__ == "__main__":
    main()
