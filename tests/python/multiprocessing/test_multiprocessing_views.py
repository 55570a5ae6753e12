"""Views of one storage, elements that overlap, and many tensors in one message."""

from __future__ import annotations

from typing import Any

import pytest

from support.contexts import OURS, context_of, quick_methods
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")

LARGE = 100_000  # float64: goes by reference


def storages(tensors: Any) -> int:
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors})


def look_at_views(*views: Any) -> tuple[int, int]:
    views[0].fill_(7)
    return storages(views), int(views[0].untyped_storage().nbytes())


def send_views(method: str) -> None:
    from concurrent.futures import ProcessPoolExecutor

    import torch

    context = context_of(OURS, method)

    def new() -> Any:
        tensor = torch.zeros(6)
        return tensor, (tensor[:2], tensor[3:5], tensor.view(2, 3).t(), tensor[5:])

    with context.Manager() as manager, context.Pool(1) as pool:
        tensor, views = new()
        queue = manager.Queue()
        queue.put(views)
        assert look_at_views(*queue.get()) == (1, 24)
        assert tensor.tolist() == [7, 7, 0, 0, 0, 0]
        tensor, views = new()
        assert pool.apply(look_at_views, views) == (1, 24)
        assert tensor.tolist() == [7, 7, 0, 0, 0, 0]
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        tensor, views = new()
        assert executor.submit(look_at_views, *views).result() == (1, 24)
        parameter = torch.nn.Parameter(torch.zeros(4)[1:])
        found = executor.submit(look_at_parameter, parameter).result()
        assert found == ("Parameter", True)


def look_at_parameter(parameter: Any) -> tuple[str, bool]:
    return type(parameter).__name__, parameter.requires_grad


@quick_methods
@pytest.mark.usefixtures("all_views_move")
def test_views_of_one_storage_stay_views(warm: Warm, method: str) -> None:
    warm.run(send_views, method)


def send_very_many(most: int, count: int) -> None:
    import numpy as np
    import torch

    from tensorbus._pickling import lending

    lending.MAX_TENSORS = most  # of one share; sixty thousand take seconds to move
    here, there = context_of(OURS, "fork").Pipe()
    tensors = [torch.full((1,), float(number)) for number in range(count)]
    arrays = [np.zeros(10_000) + number for number in range(3 * most if most < 10 else 0)]
    there.send((tensors, arrays))
    found, found_arrays = here.recv()
    assert [int(tensor) for tensor in found] == list(range(count))
    assert [int(array[0]) for array in found_arrays] == list(range(len(arrays)))
    found[-1].fill_(-1)
    assert tensors[-1].tolist() == [-1]


def test_one_message_has_more_tensors_than_one_share(warm: Warm) -> None:
    warm.run(send_very_many, 4, 20)


def send_overlapping_elements() -> None:
    import numpy as np

    context = context_of(OURS, "fork")
    here, there = context.Pipe()
    row = np.arange(float(LARGE))
    pairs = np.lib.stride_tricks.as_strided(row, (LARGE - 1, 2), (8, 8))
    for array in (np.broadcast_to(row, (2, LARGE)), pairs, np.stack([row, row], 1)[:, 0]):
        here.send(array)
        received = there.recv()
        assert np.array_equal(received, array)
        assert received.flags.c_contiguous  # as from the standard library's pickle
        received[0] = -1
        assert not (received[1] == -1).any()


def test_no_two_elements_of_a_received_array_share_memory(warm: Warm) -> None:
    warm.run(send_overlapping_elements)
