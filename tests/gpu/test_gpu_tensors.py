"""What arrives is what was sent: elements, strides, gradients, messages; and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import tensorbus as tb
from support.cuda.gpu_tensors import DEVICE, not_in_rehearsal, own_stream, torch
from support.harness import PATIENCE, Elsewhere, hear, tell

DTYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
]


def bytes_of(tensor: Any) -> bytes:
    """Of its elements, in their order."""
    plain = tensor.detach().cpu().contiguous().reshape(-1)
    result: bytes = plain.view(torch.uint8).numpy().tobytes()
    return result


@pytest.mark.parametrize("of", ["bus", "torch"])
def test_all_elements_and_strides_arrive(elsewhere: Elsewhere, of: str) -> None:
    def publish(of: str) -> None:
        with tb.Publisher("all", history=1) as publisher:
            message = {}
            for name in DTYPES:
                dtype = getattr(torch, name)
                whole = torch.arange(120, device=DEVICE).remainder(7).to(dtype)
                if of == "bus":
                    whole = tb.empty(120, dtype, device=DEVICE).copy_(whole)
                grid = whole.view(2, 3, 20)
                views = [grid, grid.transpose(0, 2), grid[0, 0, 0], grid[:0]]
                if of == "bus":  # a copy of what is full of holes is refused
                    views.append(grid[:, 1:, ::2])
                message[name] = [(view, bytes_of(view)) for view in views]
            publisher.publish(message)
            hear()

    publisher = elsewhere.start(publish, of)

    def receive() -> None:
        with tb.Subscriber("all", timeout=PATIENCE) as subscriber:
            for name, views in subscriber.receive().data.items():
                for tensor, expected in views:
                    assert str(tensor.dtype) == f"torch.{name}"
                    assert tensor.device.type == DEVICE
                    assert bytes_of(tensor) == expected, (name, tensor.shape)
                assert views[1][0].stride() == (1, 20, 60)

    elsewhere.run(receive)
    publisher.tell()


def test_gradients_parameters_and_views_stay_what_they_are(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with tb.Publisher("kinds", history=1) as publisher:
            base = tb.empty(12, torch.float32, device=DEVICE)
            torch.arange(12.0, device=DEVICE, out=base)
            publisher.publish(
                {
                    "leaf": torch.ones(3, device=DEVICE, requires_grad=True),
                    "parameter": torch.nn.Parameter(torch.full((2,), 2.0, device=DEVICE)),
                    "conjugate": torch.full((2,), 1 + 2j, device=DEVICE).conj(),
                    "views": [base, base[4:8], base.view(3, 4).t()],
                    "sparse": torch.eye(3, device=DEVICE).to_sparse(),
                    "nothing": torch.empty(0, 4, device=DEVICE),
                }
            )
            history = torch.ones(3, device=DEVICE, requires_grad=True) * 2
            with pytest.raises(tb.Unsupported, match="history"):
                publisher.publish(history)
            hear()

    publisher = elsewhere.start(publish)

    def receive() -> None:
        with tb.Subscriber("kinds", timeout=PATIENCE) as subscriber:
            got = subscriber.receive().data
            assert got["leaf"].requires_grad
            (got["leaf"] * 3).sum().backward()
            assert got["leaf"].grad.tolist() == [3] * 3
            assert type(got["parameter"]) is torch.nn.Parameter
            assert got["conjugate"].tolist() == [1 - 2j] * 2
            base, part, turned = got["views"]
            assert part.tolist() == [4, 5, 6, 7]
            assert turned.tolist() == base.view(3, 4).t().tolist()
            assert part.data_ptr() == base.data_ptr() + 16
            assert got["sparse"].to_dense().tolist() == torch.eye(3).tolist()
            assert got["nothing"].shape == (0, 4)

    elsewhere.run(receive)
    publisher.tell()


def test_typed_messages_of_tensors(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with (
            tb.Publisher("one", tb.TensorMessage, history=1) as one,
            tb.Publisher("many", tb.MultiTensorMessage, history=1) as many,
        ):
            features = one.loan((4, 8), torch.bfloat16, device=DEVICE)
            one.publish(tb.TensorMessage(features.fill_(2), name="features"))
            tensors = {
                name: torch.full((3,), float(i), device=DEVICE) for i, name in enumerate("ab")
            }
            many.publish(tb.MultiTensorMessage(tensors))
            tell(one.stats["bytes_copied"])
            hear()

    publisher = elsewhere.start(publish)
    assert publisher.hear() == 0

    def receive() -> None:
        with tb.Subscriber("one", tb.TensorMessage, timeout=PATIENCE) as subscriber:
            message = subscriber.receive().data
            assert (message.name, message.data.dtype) == ("features", torch.bfloat16)
            assert message.data.sum().item() == 64
        with tb.Subscriber("many", tb.MultiTensorMessage, timeout=PATIENCE) as subscriber:
            tensors = subscriber.receive().data.tensors
            assert {name: t.tolist() for name, t in tensors.items()} == {"a": [0] * 3, "b": [1] * 3}

    elsewhere.run(receive)
    publisher.tell()


@not_in_rehearsal
def test_a_stream_that_is_captured_is_refused_and_a_replay_is_published(
    elsewhere: Elsewhere,
) -> None:
    def publish() -> None:
        with tb.Publisher("graph", history=1) as publisher, own_stream() as stream:
            loan = publisher.loan(16, torch.int32, device=DEVICE)
            loan.fill_(1)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            loan.add_(1)
            with pytest.raises(tb.Unsupported, match="captured into a graph"):
                publisher.publish(loan)
            graph.capture_end()
            graph.replay()
            graph.replay()
            publisher.publish(loan, stream=stream)
            hear()

    publisher = elsewhere.start(publish)

    def receive() -> None:
        with tb.Subscriber("graph", timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            with own_stream():
                counter = torch.zeros(1, device=DEVICE)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin()
                counter.add_(1)
                with pytest.raises(tb.Unsupported, match="captured into a graph"):
                    sample.data  # noqa: B018
                graph.capture_end()
                assert sample.data.tolist() == [3] * 16

    elsewhere.run(receive)
    publisher.tell()


def test_a_received_tensor_is_used_on_other_streams_and_by_other_libraries(
    elsewhere: Elsewhere,
) -> None:
    def publish() -> None:
        with tb.Publisher("tensor", history=1) as publisher:
            publisher.publish(torch.arange(1000, device=DEVICE))
            hear()

    publisher = elsewhere.start(publish)

    def receive() -> None:
        with tb.Subscriber("tensor", timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            tensor = sample.data
            sums = []
            for _ in range(4):
                with own_stream() as stream:
                    if stream is not None:
                        sample.use_on(stream)
                    sums.append(tensor.sum())
            assert [int(each) for each in sums] == [499500] * 4
            assert torch.from_dlpack(sample).sum().item() == 499500

    elsewhere.run(receive)
    publisher.tell()


@not_in_rehearsal
def test_arrays_of_cupy_arrive_and_what_arrives_is_one(elsewhere: Elsewhere) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed")

    def publish() -> None:
        import cupy

        with tb.Publisher("arrays", history=1) as publisher:
            publisher.publish({"x": cupy.arange(1000, dtype="int32"), "name": "cupy"})
            hear()

    publisher = elsewhere.start(publish)

    def receive() -> None:
        import cupy

        with tb.Subscriber("arrays", timeout=PATIENCE) as subscriber:
            memory = subscriber.receive().data["x"]
            for array in (cupy.from_dlpack(memory), cupy.asarray(memory)):
                assert int(array.sum()) == 499500
            assert int(torch.from_dlpack(memory).sum()) == 499500

    elsewhere.run(receive)
    publisher.tell()


@not_in_rehearsal
def test_main_memory_that_is_pinned_goes_to_the_gpu(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with tb.Publisher("host", history=1) as publisher:
            loan = publisher.loan(1 << 20, torch.int32)
            publisher.publish(torch.arange(1 << 20, dtype=torch.int32, out=loan))
            hear()

    def receive() -> None:
        try:
            subscriber = tb.Subscriber[Any]("host", timeout=PATIENCE, pin=True)
        except tb.Unsupported as error:
            return tell(str(error))
        with subscriber, own_stream():
            tensor = subscriber.receive().data
            assert tensor.is_pinned()
            there = tensor.to("cuda", non_blocking=True)
            assert torch.equal(there, torch.arange(1 << 20, dtype=torch.int32, device="cuda"))
        tell("")

    publisher = elsewhere.start(publish)
    why_not = elsewhere.start(receive).hear()
    publisher.tell()
    if why_not:  # drivers of many GPUs register no memory that a process maps for reading
        pytest.skip(why_not)
