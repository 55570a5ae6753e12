"""What the tests in tests/gpu do on a GPU: tensors filled and compared there, in streams' order.

Nothing here waits for the GPU, so that a reader which comes too early, or a writer that uses memory
again too early, is found out: what is wrong is counted on the GPU, and asked for at the end.

With TENSORBUS_REHEARSE=1 all of it works in main memory: a rehearsal, to find the tests' own
mistakes where there is no GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, hear, tell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

REHEARSAL = os.environ.get("TENSORBUS_REHEARSE") == "1"
DEVICE = "cpu" if REHEARSAL else "cuda"
WORDS = 1 << 10 if REHEARSAL else 1 << 18  # a tensor of 1 MiB
not_in_rehearsal = pytest.mark.skipif(REHEARSAL, reason="a rehearsal has no streams")

if REHEARSAL:
    torch.set_num_threads(1)

# Of torch.cuda._sleep, which counts cycles of a clock of some 1 to 2 GHz.
_CYCLES_PER_MS = 1_500_000


def why_no_gpu() -> str | None:
    """Why the tests of tests/gpu cannot run here; None: they can."""
    if REHEARSAL:
        return None
    if torch.version.cuda is None:
        return f"no GPU test ran: this PyTorch ({torch.__version__}) is built without CUDA"
    if not torch.cuda.is_available():
        return "no GPU test ran: PyTorch sees no GPU (nvidia-smi tells what the driver sees)"
    return None


def delay(milliseconds: float) -> None:
    """Keeps torch's current stream busy."""
    if milliseconds and not REHEARSAL:
        torch.cuda._sleep(int(milliseconds * _CYCLES_PER_MS))


@contextmanager
def own_stream() -> Iterator[Any]:
    """Work goes to a stream of its own, which does not wait for the default one."""
    stream = None if REHEARSAL else torch.cuda.Stream()
    with nullcontext() if stream is None else torch.cuda.stream(stream):
        yield stream


def synchronize() -> None:
    if not REHEARSAL:
        torch.cuda.synchronize()


class Words:
    """Patterns of one length, for one stream: the word at index i of pattern `seed` is i + seed."""

    def __init__(self, count: int = WORDS) -> None:
        self._count = count
        self._indices = torch.arange(count, dtype=torch.int32, device=DEVICE)
        self._wrong = torch.zeros((), dtype=torch.int64, device=DEVICE)
        # The driver loads a kernel when it is first used, and may wait for all that runs then. So
        # each kernel has run before a test relies on one that runs for long.
        delay(0.001)
        self.check(self.fill(torch.empty_like(self._indices), 0), 0)
        self._indices.sum()
        assert self.wrong() == 0

    def fill(self, tensor: Any, seed: int) -> Any:
        """Enqueues the kernel that writes it."""
        return torch.add(self._indices, seed, out=tensor)

    def check(self, tensor: Any, seed: int) -> None:
        """Enqueues the kernel that counts what is not of this pattern."""
        self._wrong += ((tensor - self._indices) != seed).sum()

    def wrong(self) -> int:
        """How many words were wrong, up to here. Waits for the GPU."""
        return int(self._wrong)


def publish_patterns(count: int, write_ms: float, kind: str, readers: int = 1) -> None:
    """In a process of its own: a message for each seed, whose kernel is still to run."""
    with tb.Publisher("patterns", reliable=True, depth=2) as publisher, own_stream():
        words = Words()
        assert publisher.wait_for_subscribers(readers, timeout=PATIENCE)
        for seed in range(count):
            if kind == "loan":
                tensor = publisher.loan(WORDS, torch.int32, device=DEVICE)
            elif kind == "empty":
                tensor = tb.empty(WORDS, torch.int32, device=DEVICE)
            else:  # PyTorch's own, out of a larger piece of its allocator's
                tensor = torch.empty(WORDS, dtype=torch.int32, device=DEVICE)
            delay(write_ms)
            words.fill(tensor, seed)
            publisher.publish({"words": tensor, "seed": seed})
            del tensor
        tell(publisher.stats["bytes_copied"])
        hear()


def check_patterns(count: int, read_ms: float, in_order: bool, topic: str = "patterns") -> None:
    """In a process of its own: receives them, and tells how many words were wrong."""
    library: Any = None if in_order else "dlpack"
    with tb.Subscriber(topic, timeout=PATIENCE, library=library) as subscriber, own_stream():
        words = Words()
        intact = True
        samples = []
        for expected in range(count):
            sample = subscriber.receive()
            message = sample.data
            assert message["seed"] == expected
            tensor = message["words"] if in_order else _at_once(message["words"])
            delay(read_ms)
            words.check(tensor, expected)
            samples = [*samples[-3:], sample]
            del message, tensor, sample
        wrong = words.wrong()
        intact = all(sample.intact for sample in samples)
        tell((wrong, intact))


def _at_once(memory: Any) -> Any:
    """A tensor over memory that no stream waits for, and whose stream nobody waits for."""
    return torch.utils.dlpack.from_dlpack(memory.__dlpack__(stream=None if REHEARSAL else -1))
