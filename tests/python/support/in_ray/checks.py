"""What is so of tensors in Ray's actors. `tests/python/connectors/test_ray.py` runs it."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import ray
import torch

import tensorbus as tb
import tensorbus.ray
from support.harness import PATIENCE, eventually
from tensorbus.connectors.ray import _place as place

tensorbus.ray.register()  # also in workers, which import this module
torch.set_num_threads(1)

SIZE = 1 << 18  # elements


class Source:
    """An actor that makes tensors, and keeps some."""

    def __init__(self) -> None:
        self.weights = torch.zeros(SIZE)
        self.born = tb.empty((SIZE,), torch.float32)

    @ray.method(tensor_transport="TENSORBUS")
    def tensors(self, make: Callable[[], Any]) -> Any:
        return make()

    @ray.method(tensor_transport="TENSORBUS_NUMPY")
    def arrays(self, make: Callable[[], Any]) -> Any:
        return make()

    @ray.method(tensor_transport="TENSORBUS")
    def kept(self) -> torch.Tensor:
        return self.weights

    @ray.method(tensor_transport="TENSORBUS")
    def on_the_bus(self) -> torch.Tensor:
        return self.born.fill_(3)

    def add(self, number: float) -> None:
        self.weights += number

    def put(self) -> list[Any]:
        return [ray.put(self.weights, _tensor_transport="TENSORBUS")]

    def used_bytes(self) -> int:
        gc.collect()
        return tb.participant().arena["used_bytes"]

    def descriptors(self) -> int:
        return len(os.listdir("/proc/self/fd"))

    def pid(self) -> int:
        return os.getpid()


class Receiver:
    """An actor that receives tensors."""

    def calls(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def gets(self, function: Callable[..., Any], refs: list[Any], timeout: float | None) -> Any:
        return function(ray.get(refs[0], timeout=timeout))

    def pid(self) -> int:
        return os.getpid()


@cache
def actors() -> tuple[Any, Any]:
    """A source and a receiver for all checks: their processes take long to start."""
    one = ray.remote(num_cpus=0, max_restarts=-1)(Source)
    other = ray.remote(num_cpus=0, max_restarts=-1, enable_tensor_transport=True)(Receiver)
    return one.remote(), other.remote()


def layout_of(values: Any) -> Any:
    """What must not change on the way."""
    if isinstance(values, dict):
        return {name: layout_of(value) for name, value in values.items()}
    if isinstance(values, list):
        return [layout_of(value) for value in values]
    if isinstance(values, torch.Tensor):
        data = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
        contents = data.detach().float().tolist()
        marks = values.is_conj(), values.requires_grad
        return str(values.dtype), [*values.shape], [*values.stride()], *marks, contents
    if isinstance(values, np.ndarray):
        return str(values.dtype), values.shape, values.strides, values.tolist()
    return values


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert found[name] == value, f"{name}: {found[name]}, expected {value}"
    assert found.keys() == expected.keys()


def many_tensors() -> dict[str, Any]:
    base = torch.arange(24.0).reshape(4, 6)
    return {
        "views": [base.t(), base[1:3, 1:4], base[:, ::2], torch.ones(1, 3).expand(4, 3)],
        "small": [torch.tensor(3.5), torch.empty(0, 3)],
        "types": [base.bfloat16(), base.to(torch.float8_e4m3fn), base > 3, base.to(torch.uint16)],
        "complex": base.to(torch.complex64).conj(),
        "gradients": base.clone().requires_grad_(),
        "layout": torch.ones(1, 3, 4, 4).to(memory_format=torch.channels_last),
        "array": np.arange(3),  # through Ray's object store
        "id": 7,
    }


def many_arrays() -> dict[str, Any]:
    base = np.arange(24.0).reshape(4, 6)
    return {
        "views": [base.T, base[::-1], base[1:3, ::2], np.broadcast_to(base[0], (3, 6))],
        "small": [np.array(3.5), np.ones(1)],
        "types": [base.astype(">f4"), np.array(["ab", "c"]), np.array(["2020-01-01"], "M8[D]")],
        "records": np.zeros(3, [("a", "i4"), ("b", "f8")]),
        "tensor": torch.ones(3),
        "id": 7,
    }


def check_views_and_types_arrive_exactly() -> None:
    one, other = actors()
    for method, make in ((one.tensors, many_tensors), (one.arrays, many_arrays)):
        ref = method.remote(make)
        expected = layout_of(make())
        same(ray.get(other.calls.remote(layout_of, ref)), expected)
        same(ray.get(other.gets.remote(layout_of, [ref], None)), expected)  # as a borrower
        same(layout_of(ray.get(ref)), expected)
        assert ray.get(other.calls.remote(layout_of, method.remote(dict))) == {}


def check_an_object_does_not_change() -> None:
    one, other = actors()
    ref = one.kept.remote()
    ray.get(one.add.remote(1))
    assert ray.get(other.calls.remote(total, ref)) == 0
    [put] = ray.get(one.put.remote())
    ray.get(one.add.remote(-1))
    assert float(ray.get(put).sum()) == SIZE
    mine = torch.ones(SIZE)
    own = ray.put(mine, _tensor_transport="TENSORBUS")
    mine += 1
    assert ray.get(other.calls.remote(total, own)) == SIZE


def total(tensor: torch.Tensor) -> float:
    return float(tensor.sum())


def write(tensor: Any) -> float:
    tensor[:] = 9
    return float(tensor.sum())


def check_received_tensors_may_be_written_to() -> None:
    one, other = actors()
    for ref in (one.kept.remote(), one.arrays.remote(zeros)):
        assert ray.get(other.calls.remote(write, ref)) == 9 * SIZE
        assert float(ray.get(ref).sum()) == 0


def zeros() -> np.ndarray:
    return np.zeros(SIZE)


def once_others_are_freed(one: Any) -> int:
    """The memory that the source itself keeps: Ray frees the objects of earlier checks later."""
    own = 4 * SIZE
    eventually(lambda: ray.get(one.used_bytes.remote()) == own)
    return own


def check_what_is_on_the_bus_is_not_copied() -> None:
    one, other = actors()
    before = once_others_are_freed(one)
    ref = one.on_the_bus.remote()
    assert ray.get(other.calls.remote(total, ref)) == 3 * SIZE
    assert ray.get(one.used_bytes.remote()) == before
    kept = one.kept.remote()
    assert ray.get(other.calls.remote(total, kept)) == 0
    assert ray.get(one.used_bytes.remote()) == before + 4 * SIZE


def check_what_nobody_refers_to_is_freed() -> None:
    one, other = actors()
    before = once_others_are_freed(one)
    ray.get(other.calls.remote(total, one.kept.remote()))
    open_files = ray.get(one.descriptors.remote())
    held = [one.kept.remote() for _ in range(20)]
    ray.get([other.calls.remote(total, ref) for ref in held])
    assert ray.get(one.used_bytes.remote()) >= before + 20 * 4 * SIZE
    del held
    eventually(lambda: ray.get(one.used_bytes.remote()) == before)
    assert ray.get(one.descriptors.remote()) <= open_files + 2
    mine = ray.put(torch.ones(SIZE), _tensor_transport="TENSORBUS")
    assert tb.participant().arena["used_bytes"] == 4 * SIZE
    del mine
    eventually(lambda: tb.participant().arena["used_bytes"] == 0)


def check_target_buffers_are_filled() -> None:
    one, _ = actors()
    ref = one.tensors.remote(two_tensors)
    buffers = [torch.zeros(2, 3), torch.zeros(4, dtype=torch.int64)]
    ray.experimental.set_target_for_ref(ref, buffers)
    found = ray.get(ref)
    assert [each is buffer for each, buffer in zip(found, buffers, strict=True)] == [True, True]
    assert buffers[0].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert buffers[1].tolist() == [0, 1, 2, 3]


def two_tensors() -> list[torch.Tensor]:
    return [torch.ones(3, 2).t(), torch.arange(4)]


def check_what_cannot_be_sent_is_an_error_that_says_so() -> None:
    one, other = actors()
    with pytest.raises(ray.exceptions.RayError, match="quantized") as error:
        ray.get(other.calls.remote(total, one.tensors.remote(quantized)))
    assert isinstance(error.value, tb.Unsupported)
    assert ray.get(one.used_bytes.remote()) >= 0  # it lives


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


def check_a_killed_source_is_an_error_and_a_restarted_one_works() -> None:
    one, other = actors()
    ref, held = one.kept.remote(), one.kept.remote()
    mine = ray.get(held)
    ray.wait([ref])
    os.kill(ray.get(one.pid.remote()), signal.SIGKILL)
    when_up(one)
    for get in (
        lambda: ray.get(ref),
        lambda: ray.get(other.calls.remote(total, ref)),
        lambda: ray.get(other.gets.remote(total, [ref], None)),
    ):
        with pytest.raises(ray.exceptions.RayError, match="are lost: participant"):
            get()
    assert float(mine.sum()) == 0  # what was received stays
    assert ray.get(other.calls.remote(total, one.kept.remote())) == 0


def check_a_restarted_receiver_receives() -> None:
    one, other = actors()
    before = ray.get(one.used_bytes.remote())
    ref = one.kept.remote()
    assert ray.get(other.calls.remote(total, ref)) == 0
    os.kill(ray.get(other.pid.remote()), signal.SIGKILL)
    when_up(other)
    assert ray.get(other.calls.remote(total, ref)) == 0
    del ref
    eventually(lambda: ray.get(one.used_bytes.remote()) == before)


def when_up(actor: Any) -> None:
    """Waits until Ray has restarted the actor."""
    deadline = time.monotonic() + 10 * PATIENCE
    while True:
        try:
            ray.get(actor.pid.remote())
            return
        except ray.exceptions.RayActorError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def check_a_stopped_source_takes_no_longer_than_the_time_limit() -> None:
    one, other = actors()
    ref = one.kept.remote()
    ray.wait([ref])
    pid = ray.get(one.pid.remote())
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ray.exceptions.GetTimeoutError):
            ray.get(ref, timeout=0.5)
        with pytest.raises(ray.exceptions.GetTimeoutError):
            ray.get(other.gets.remote(total, [ref], 0.5))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert float(ray.get(ref).sum()) == 0


class OfAnotherMachine(Source):
    """A source that seems to be on another machine, without a bridge."""

    def __init__(self) -> None:
        super().__init__()
        place._boot = lambda: "another"


def check_tensors_of_another_machine_come_through_the_object_store() -> None:
    _, other = actors()
    environment = {"env_vars": {"TENSORBUS_DOMAIN": f"{tb.participant().domain}_of_another"}}
    far = ray.remote(num_cpus=0, runtime_env=environment)(OfAnotherMachine).remote()
    for method, make in ((far.tensors, many_tensors), (far.arrays, plain_arrays)):
        ref, expected = method.remote(make), layout_of(make())
        same(ray.get(other.calls.remote(layout_of, ref)), expected)
        same(layout_of(ray.get(ref)), expected)


def plain_arrays() -> dict[str, Any]:
    return {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(3, dtype=">i2")}


_job: list[Any] = []


def publish_in_a_job() -> None:
    """A publisher, and a source that other jobs find."""
    source = ray.remote(num_cpus=0)(Source).options(name="source", namespace="jobs")
    _job[:] = [tb.Publisher("jobs"), source.remote()]
    ray.get(_job[1].pid.remote())


def end_the_job() -> None:
    publisher, _ = _job
    _job.clear()
    publisher.close()


def check_what_ray_tmpdir_names_is_used_by_ray_alone() -> None:
    folder = os.environ["RAY_TMPDIR"]
    node = ray._private.worker._global_node
    assert node.get_session_dir_path().startswith(folder)
    domains = {tb.participant().domain}
    domains |= {ray.get(actor.calls.remote(domain)) for actor in actors()[1:]}
    assert domains == {os.environ["TENSORBUS_DOMAIN"]}


def domain() -> str:
    return tb.participant().domain
