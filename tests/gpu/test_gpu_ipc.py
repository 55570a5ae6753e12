"""Raw CUDA IPC handles of tensors of PyTorch."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import tensorbus as tb
from support.cuda.gpu_tensors import delay, not_in_rehearsal, own_stream, torch
from support.harness import Elsewhere, eventually, hear, tell
from tensorbus import cuda

pytestmark = not_in_rehearsal


def test_a_tensor_of_one_process_is_a_tensor_of_another(elsewhere: Elsewhere) -> None:
    def own() -> None:
        _before = torch.zeros(1000, device="cuda")  # the next is not at the start of its block
        grid = torch.arange(120, device="cuda", dtype=torch.float32).view(8, 15)
        column = grid[2:, 3]
        torch.cuda.synchronize()
        tell(dataclasses.asdict(cuda.ipc_handle(column)))
        hear()
        tell(grid.sum().item())
        with pytest.raises(tb.InvalidArgument, match="of this process"):
            cuda.open_ipc(cuda.ipc_handle(grid).handle, 1, "uint8")

    def view(found: dict[str, Any]) -> None:
        place = (found["handle"], found["shape"], found["dtype"], found["strides"], found["offset"])
        column = cuda.open_ipc(*place)
        again = cuda.open_ipc(*place)
        assert column.data_ptr() == again.data_ptr()
        assert column.tolist() == [33.0, 48.0, 63.0, 78.0, 93.0, 108.0]
        with own_stream() as stream:
            working = cuda.open_ipc(*place)
            delay(200)
            working.zero_()
            del working, column, again  # closed when that has run
            stream.synchronize()
        with pytest.raises(tb.InvalidArgument, match="the allocation has"):
            cuda.open_ipc(found["handle"], 1 << 40, "uint8")
        tell("closed")

    owner = elsewhere.start(own)
    viewer = elsewhere.start(view, owner.hear())
    assert viewer.hear() == "closed"
    owner.tell("closed")
    assert owner.hear() == 7140.0 - 423.0


def test_the_memory_is_closed_when_its_last_tensor_is_gone(elsewhere: Elsewhere) -> None:
    def own() -> None:
        whole = torch.zeros(64 << 20, device="cuda", dtype=torch.uint8)
        tell(cuda.ipc_handle(whole).handle)
        hear()

    def view(handle: bytes) -> None:
        tensor = cuda.open_ipc(handle, 64 << 20, torch.uint8)
        address = tensor.data_ptr()
        assert tb._core.cuda_device_of(address) == 0
        del tensor
        eventually(lambda: tb._core.cuda_device_of(address) == -1)
        tell("closed")

    owner = elsewhere.start(own)
    viewer = elsewhere.start(view, owner.hear())
    assert viewer.hear() == "closed"
    owner.tell("closed")
