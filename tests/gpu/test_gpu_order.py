"""Racing streams: a kernel checks every message, none of which anybody waits for on the host."""

from __future__ import annotations

import pytest

from support.cuda.gpu_tensors import REHEARSAL, check_patterns, not_in_rehearsal, publish_patterns
from support.harness import Elsewhere


def allocating(how: str) -> dict[str, str]:
    """The name changed with PyTorch 2.9; each ignores the other's."""
    return {name: how for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF") if how}


@pytest.mark.parametrize("kind", ["loan", "empty", "torch"])
@pytest.mark.parametrize(
    ("write_ms", "read_ms"), [(0, 0), (3, 0), (0, 3), (2, 2)], ids=["none", "late", "slow", "both"]
)
def test_no_word_is_half_written_or_used_again(
    elsewhere: Elsewhere, kind: str, write_ms: float, read_ms: float
) -> None:
    count = 300 if write_ms or read_ms or REHEARSAL else 2_000
    publisher = elsewhere.start(publish_patterns, count, write_ms, kind)
    reader = elsewhere.start(check_patterns, count, read_ms, True)
    assert reader.hear(120) == (0, True)
    assert publisher.hear() == 0 or REHEARSAL  # where PyTorch's is no memory that can be lent
    publisher.tell()


@pytest.mark.parametrize("how", ["", "expandable_segments:True", "backend:cudaMallocAsync"])
@pytest.mark.parametrize("kind", ["loan", "torch"])
def test_pytorchs_allocator_may_have_its_memory_as_it_likes(
    elsewhere: Elsewhere, kind: str, how: str
) -> None:
    publisher = elsewhere.start(publish_patterns, 300, 1, kind, env=allocating(how))
    reader = elsewhere.start(check_patterns, 300, 1, True, env=allocating(how))
    assert reader.hear(120) == (0, True)
    if kind == "loan" or how != "backend:cudaMallocAsync":  # whose pool cannot be exported
        assert publisher.hear() == 0 or REHEARSAL
    publisher.tell()


@not_in_rehearsal
@pytest.mark.alone  # other kernels might run between a write and a read that comes too early
@pytest.mark.parametrize(("write_ms", "read_ms"), [(20, 0), (0, 20)], ids=["late", "slow"])
def test_the_check_fails_where_order_is_left_out(
    elsewhere: Elsewhere, write_ms: float, read_ms: float
) -> None:
    """Without this, the tests above might see nothing."""
    publisher = elsewhere.start(publish_patterns, 40, write_ms, "loan")
    reader = elsewhere.start(check_patterns, 40, read_ms, False)
    wrong, _ = reader.hear(120)
    assert wrong > 0
    publisher.tell()


def test_several_readers_at_their_own_pace(elsewhere: Elsewhere) -> None:
    readers = [elsewhere.start(check_patterns, 200, read_ms, True) for read_ms in (0, 1, 4)]
    publisher = elsewhere.start(publish_patterns, 200, 1, "loan", 3)
    for reader in readers:
        assert reader.hear(120) == (0, True)
    publisher.tell()
