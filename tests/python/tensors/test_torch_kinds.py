"""Every kind of torch tensor arrives as what it was, or is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, joined
from support.torch_kinds import NESTED, SPARSE, Pair, torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # "beta", "prototype"
DTYPES = sorted(
    {
        str(dtype).removeprefix("torch.")
        for dtype in vars(torch).values()
        if isinstance(dtype, torch.dtype) and not str(dtype).startswith(("torch.q", "torch.bit"))
    }
    | {
        name
        for name in ("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2")
        if hasattr(torch, name)
    }
)


def received(message: Any, library: Any = None) -> Any:
    with joined(subscriber={"library": library}) as (publisher, subscriber):
        publisher.publish(message)
        return subscriber.receive().data


def assert_refused(message: Any, why: str) -> None:
    with joined() as (publisher, subscriber):
        with pytest.raises(tb.Unsupported, match=why):
            publisher.publish(message)
        publisher.publish("the next")
        assert subscriber.receive().data == "the next"
        assert publisher.stats["sent"] == 1
        assert publisher.stats["bytes_in_flight"] == 0


def bits_of(tensor: Any) -> Any:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "a leaf or a parameter", "meta"])
def test_every_dtype_arrives(name: str, layout: str) -> None:
    dtype = getattr(torch, name)
    raw = torch.arange(96, dtype=torch.uint8)
    tensor = (raw % 2 if dtype == torch.bool else raw).view(dtype).reshape(2, -1)
    if layout == "transposed":
        tensor = tensor.t()
    if layout == "meta":
        tensor = torch.empty_strided((2, 3), (1, 2), dtype=dtype, device="meta")
    if layout == "a leaf or a parameter":
        has_gradients = dtype.is_floating_point or dtype.is_complex
        tensor = torch.nn.Parameter(tensor, requires_grad=has_gradients)
    back = received(tensor)
    assert type(back) is type(tensor)
    assert (back.dtype, back.shape, back.stride()) == (dtype, tensor.shape, tensor.stride())
    assert (back.requires_grad, back.device) == (tensor.requires_grad, tensor.device)
    if layout != "meta":
        pair = (back.t(), tensor.t()) if layout == "transposed" else (back, tensor)
        assert torch.equal(*map(bits_of, pair))


def test_a_complex_view_keeps_its_conjugate_and_its_negative_bit() -> None:
    tensor = torch.tensor([[1 + 2j, 3 - 4j]])
    for view in (tensor.conj(), tensor.mH, tensor.conj().imag, torch._neg_view(tensor.conj())):
        back = received(view)
        assert (back.is_conj(), back.is_neg()) == (view.is_conj(), view.is_neg())
        assert back.stride() == view.stride()
        assert torch.equal(back, view)


def test_a_conjugate_leaf_of_a_message_is_a_leaf() -> None:
    leaf = torch.ones(3, dtype=torch.complex64).conj().detach().requires_grad_()
    back = received(leaf)
    assert back.is_conj()
    assert back.requires_grad
    assert back.is_leaf


def test_a_meta_tensor_keeps_all_but_memory() -> None:
    meta = torch.empty(2, 3, dtype=torch.complex64, device="meta")
    for tensor in (meta, meta.t(), meta.conj(), torch.nn.Parameter(meta), meta.real):
        back = received({"meta": tensor})["meta"]
        assert type(back) is type(tensor)
        assert (back.dtype, back.shape, back.stride()) == (
            *(tensor.dtype, tensor.shape, tensor.stride()),
        )
        assert (back.is_meta, back.is_conj()) == (True, tensor.is_conj())
        assert back.requires_grad == tensor.requires_grad


def test_views_of_one_storage_stay_views_of_one_another() -> None:
    whole = torch.arange(100.0)
    message = [whole[10:20], whole.view(10, 10).t(), whole[15:60:5], whole.view(torch.int32)[3:]]
    back = received(message)
    for view, original in zip(back, message, strict=True):
        assert view.stride() == original.stride()
        assert view.data_ptr() - back[0].data_ptr() == original.data_ptr() - message[0].data_ptr()
        assert torch.equal(view, original)


def test_a_torch_and_a_numpy_view_of_one_memory_stay_so() -> None:
    array = np.arange(10.0)
    tensor, reverse = received([torch.from_numpy(array), array[::-1]])
    assert reverse.__array_interface__["data"][0] == tensor.data_ptr() + 72
    assert reverse.tolist() == tensor.tolist()[::-1]


def test_a_tensor_that_is_in_a_message_twice_is_one_object_there() -> None:
    tensor = torch.ones(3)
    one, another = received([tensor, {"again": tensor}])
    assert one is another["again"]


def test_a_tensor_may_be_in_a_set_and_be_a_key() -> None:
    (item,) = received({torch.arange(3)})
    assert item.tolist() == [0, 1, 2]
    ((key, value),) = received({torch.arange(3): 7}).items()
    assert (key.tolist(), value) == ([0, 1, 2], 7)
    with pytest.raises(tb.Unsupported, match='no hash when received with library="numpy"'):
        received({torch.arange(3)}, "numpy")


@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_tensor_arrives_as_one(name: str) -> None:
    tensor = SPARSE[name]()
    back = received(tensor)
    assert type(back) is type(tensor)
    assert (back.layout, back.dtype, back.shape) == (tensor.layout, tensor.dtype, tensor.shape)
    assert back.requires_grad == tensor.requires_grad
    if tensor.layout == torch.sparse_coo:
        assert back.is_coalesced() == tensor.is_coalesced()
        assert torch.equal(back.detach()._indices(), tensor.detach()._indices())
        assert torch.equal(back.detach()._values(), tensor.detach()._values())
    assert torch.equal(back.detach().to_dense(), tensor.detach().to_dense())


@pytest.mark.parametrize("name", ["a CSR column beyond", "jagged beyond its values"])
def test_what_every_getter_would_refuse_is_refused_by_put(name: str) -> None:
    make, why = REFUSED[name]
    with tb.Queue() as items:
        with pytest.raises(tb.Unsupported, match=why):
            items.put({"a set of types": {int}, "tensor": make()})
        items.put("the next")
        assert items.get(timeout=PATIENCE) == "the next"


def test_indices_that_overlap_arrive_as_they_are() -> None:
    one = torch.eye(100).to_sparse_csr()
    batches = torch.sparse_csr_tensor(
        *(part.expand(200, -1) for part in (one.crow_indices(), one.col_indices())),
        torch.rand(200, 100),
    )
    assert torch.equal(received(batches).to_dense(), batches.to_dense())


def test_sparse_tensors_that_share_their_values_share_them_there() -> None:
    csr = torch.eye(3).to_sparse_csr()
    back, values = received([csr, csr.values()[1:]])
    assert values.data_ptr() == back.values().data_ptr() + 4


@pytest.mark.parametrize("name", NESTED)
def test_a_nested_tensor_arrives_as_one(name: str) -> None:
    tensor = NESTED[name]()
    back = received(tensor)
    assert type(back) is type(tensor)
    assert (back.layout, back.dtype, back.ndim) == (tensor.layout, tensor.dtype, tensor.ndim)
    assert back.requires_grad == tensor.requires_grad
    parts = list(zip(back.detach().unbind(), tensor.detach().unbind(), strict=True))
    for part, original in parts:
        assert (part.shape, part.stride()) == (original.shape, original.stride())
        assert torch.equal(part, original)


def test_jagged_tensors_of_one_shape_can_still_be_added() -> None:
    tensor = NESTED["jagged"]()
    one, two = received([tensor, tensor * 2])
    assert torch.equal((one + two).values(), (tensor * 3).values())


def test_a_subclass_with_the_flatten_protocol_arrives_as_one() -> None:
    whole = torch.arange(6.0)
    back, base = received([Pair(whole[2:].view(2, 2).t(), Pair(whole, whole), ("x", 1)), whole])
    assert type(back) is Pair
    assert type(back.b) is Pair
    assert (back.shape, back.stride()) == ((2, 2), (1, 2))
    assert back.name_of_it == ("x", 1)
    assert back.a.data_ptr() == base.data_ptr() + 8


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_subclass_can_be_sent_in_every_mode(mode: Callable[[], Any]) -> None:
    sent = [Pair(torch.ones(3), torch.zeros(3)), NESTED["jagged"](), NESTED["jagged, a leaf"]()]
    with mode():
        sent.append(Pair(torch.ones(3), torch.zeros(3)))
        back = received(sent)
    assert [type(tensor) for tensor in back] == [type(tensor) for tensor in sent]
    assert [tensor.requires_grad for tensor in back] == [False, False, True, False]
    assert torch.equal(back[0].a, torch.ones(3))


def test_a_subclass_that_nobody_there_knows_is_refused_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(Pair(torch.ones(3), torch.ones(3)))
        sample = subscriber.receive()
        monkeypatch.delattr("support.torch_kinds.Pair")
        with pytest.raises(tb.Unsupported, match=r"Pair, which is not imported in this process"):
            _ = sample.data


def state_of_a_model() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).state_dict()


def by_a_share(message: Any) -> Any:
    with tb.share(message) as shared:
        return tb.attach(shared.handle)


def by_a_queue(message: Any) -> Any:
    with tb.Queue() as items:
        items.put(message)
        return items.get(timeout=PATIENCE)


@pytest.mark.parametrize("receive", [received, by_a_share, by_a_queue])
def test_the_versions_in_a_state_dict_arrive(receive: Callable[[Any], Any]) -> None:
    """`load_state_dict` converts what is older by them."""
    state = state_of_a_model()
    back = receive(state)
    assert list(back) == list(state)
    assert back._metadata == state._metadata
    assert back._metadata["1"] == {"version": 2}


def test_an_attribute_of_a_state_dict_that_cannot_travel_is_refused() -> None:
    state = state_of_a_model()
    state._metadata["hook"] = object()
    assert_refused({"model": state}, "builtins.object cannot be sent")


def test_a_default_device_of_the_receiver_changes_nothing() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish([make() for make in (*SPARSE.values(), *NESTED.values())])
        sample = subscriber.receive()
        with torch.device("meta"):
            assert all(tensor.device.type == "cpu" for tensor in sample.data)


def in_vmap(publish: Callable[[Any], Any]) -> None:
    torch.vmap(lambda row: (publish(row), row)[1])(torch.zeros(2, 3))


def named() -> Any:
    if not hasattr(torch.Tensor, "rename"):
        pytest.skip("this PyTorch has no names of dimensions")
    return torch.zeros(2, names=("a",))


def resized() -> Any:
    parameter = torch.nn.Parameter(torch.zeros(3))
    parameter.untyped_storage().resize_(0)
    return parameter


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a result": (lambda: torch.ones(3, requires_grad=True) * 2, r"history.*tensor\.detach\(\)"),
    "a view of a leaf": (lambda: torch.ones(3, requires_grad=True)[1:], "history"),
    "a sparse result": (
        lambda: torch.ones(3, requires_grad=True).to_sparse(),
        "requires gradients and has a history",
    ),
    "a CSR column beyond": (
        lambda: torch.sparse_csr_tensor(
            [0, 1], [7], [1.0], (1, 3), check_invariants=False, dtype=torch.float32
        ),
        "a sparse tensor with index 7 in a row of 3",
    ),
    "a COO that is not as coalesced as it says": (
        lambda: torch.sparse_coo_tensor([[1, 0]], [1.0, 2], (3,))._coalesced_(True),
        "marked as coalesced, but its indices are not ascending",
    ),
    "jagged beyond its values": (
        lambda: torch.nested.nested_tensor_from_jagged(torch.ones(2, 3), torch.tensor([0, 9])),
        "reaches beyond its values",
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
        r"quantizer.*dequantize\(\)",
    ),
    "names": (named, r"rename\(None\)"),
    "mkldnn": (lambda: torch.zeros(3).to_mkldnn(), r"to_dense\(\)"),
    "no memory": (resized, "has no memory"),
    "a context that cannot be sent": (
        lambda: Pair(torch.ones(1), torch.ones(1), object()),
        r"Pair.__tensor_flatten__\(\): builtins.object cannot be sent",
    ),
    "an inner tensor that cannot be sent": (
        lambda: Pair(torch.ones(1), torch.ones(1).as_subclass(type("Mine", (torch.Tensor,), {}))),
        r"Pair.__tensor_flatten__\(\): Mine is a subclass",
    ),
    "a layer": (lambda: torch.nn.Linear(1, 1), "Linear cannot be sent"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_travel_is_refused_and_nothing_is_sent(name: str) -> None:
    make, why = REFUSED[name]
    assert_refused(make(), why)
    assert_refused({"good": torch.ones(3), "bad": [make()]}, rf"data\['bad'\]\[0\]: .*{why}")


def test_a_plain_tensor_without_memory_is_refused() -> None:
    zeros = torch._efficientzerotensor((3,))
    assert_refused(zeros, "has no memory")
    tensor = torch.zeros(3)
    tensor.untyped_storage().resize_(0)
    assert_refused(tensor, "has no memory")


def test_a_tensor_inside_vmap_is_refused() -> None:
    with joined() as (publisher, _):
        with pytest.raises(tb.Unsupported, match="storage"):
            in_vmap(publisher.publish)
        assert publisher.stats["sent"] == 0


def test_only_torch_receives_what_only_torch_has() -> None:
    for make in (SPARSE["CSR"], NESTED["jagged"], NESTED["strided"]):
        with pytest.raises(tb.Unsupported, match="only PyTorch has them"):
            received(make(), "numpy")


def write_to_what_came_back() -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        tensors = subscriber.receive().data
        assert [tensor.clone().add_(1).sum().item() for tensor in tensors] == [6, 6]


def test_a_clone_of_what_arrived_can_be_written_to(elsewhere: Elsewhere) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish([torch.ones(3), torch.ones(3)])
        elsewhere.start(write_to_what_came_back).finish()
