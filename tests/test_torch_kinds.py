"""Every kind of torch tensor arrives as what it was, or is refused with a reason."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

import tensorbus as tb
from harness import PATIENCE, Elsewhere, joined
from tensorbus._core import Outgoing

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

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


def received(message: Any, as_: Any = None) -> Any:
    with joined(subscriber={"as_": as_}) as (publisher, subscriber):
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
    with pytest.raises(tb.Unsupported, match='no hash when received with as_="numpy"'):
        received({torch.arange(3)}, "numpy")


SPARSE: dict[str, Callable[[], Any]] = {
    "COO, not coalesced": lambda: torch.sparse_coo_tensor([[1, 0, 1]], [1.0, 2, 3], (4,)),
    "COO, coalesced": lambda: torch.sparse_coo_tensor([[1, 0, 1]], [1, 2, 3], (4,)).coalesce(),
    "COO, hybrid": lambda: torch.sparse_coo_tensor([[2]], torch.ones(1, 3), (4, 3)),
    "COO, empty": lambda: torch.sparse_coo_tensor(size=(2, 3)),
    "CSR": lambda: torch.eye(3).to_sparse_csr(),
    "CSC": lambda: torch.eye(3).to_sparse_csc(),
    "BSR": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
    "BSC": lambda: torch.eye(4).to_sparse_bsc((2, 1)),
    "CSR, in batches": lambda: torch.eye(3).expand(2, 3, 3).to_sparse_csr(),
    "a leaf": lambda: torch.eye(3).to_sparse().requires_grad_(),
    "a parameter": lambda: torch.nn.Parameter(torch.eye(3).to_sparse_csr()),
}


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


def test_sparse_tensors_that_share_their_values_share_them_there() -> None:
    csr = torch.eye(3).to_sparse_csr()
    back, values = received([csr, csr.values()[1:]])
    assert values.data_ptr() == back.values().data_ptr() + 4


NESTED: dict[str, Callable[[], Any]] = {
    "strided": lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(4, 3)]),
    "strided, transposed": lambda: NESTED["strided"]().transpose(1, 2),
    "strided, nothing": lambda: torch.nested.nested_tensor([], dtype=torch.int64),
    "strided, a leaf": lambda: NESTED["strided"]().requires_grad_(),
    "strided, a parameter": lambda: torch.nn.Parameter(NESTED["strided"]()),
    "jagged": lambda: torch.nested.nested_tensor(
        [torch.ones(2, 3), torch.zeros(4, 3)], layout=torch.jagged
    ),
    "jagged, transposed": lambda: NESTED["jagged"]().transpose(1, 2),
    "jagged, a leaf": lambda: NESTED["jagged"]().detach().requires_grad_(),
    "jagged, with gaps": lambda: torch.nested.narrow(
        torch.arange(24).reshape(2, 4, 3), 1, 0, torch.tensor([2, 3]), layout=torch.jagged
    ),
}


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


class Pair(torch.Tensor):
    """Two tensors, by the protocol of torch.utils._python_dispatch."""

    @staticmethod
    def __new__(cls, a: Any, b: Any, name: Any = None) -> Any:
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, a.shape, strides=a.stride(), dtype=a.dtype, requires_grad=a.requires_grad
        )

    def __init__(self, a: Any, b: Any, name: Any = None) -> None:
        self.a, self.b, self.name_of_it = a, b, name

    def __tensor_flatten__(self) -> Any:
        return ["a", "b"], {"name": self.name_of_it}

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Pair(inner["a"], inner["b"], context["name"])

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.aten.detach.default:
            return Pair(args[0].a.detach(), args[0].b.detach(), args[0].name_of_it)
        raise NotImplementedError(function)


def test_a_subclass_with_the_flatten_protocol_arrives_as_one() -> None:
    whole = torch.arange(6.0)
    back, base = received([Pair(whole[2:].view(2, 2).t(), Pair(whole, whole), ("x", 1)), whole])
    assert type(back) is Pair
    assert type(back.b) is Pair
    assert (back.shape, back.stride()) == ((2, 2), (1, 2))
    assert back.name_of_it == ("x", 1)
    assert back.a.data_ptr() == base.data_ptr() + 8


def test_a_subclass_that_nobody_there_knows_is_refused_with_its_name() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(Pair(torch.ones(3), torch.ones(3)))
        sample = subscriber.receive()
        known = globals().pop("Pair")
        try:
            with pytest.raises(tb.Unsupported, match=r"Pair, which this process does not know"):
                _ = sample.data
        finally:
            globals()["Pair"] = known


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
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
        r"quantizer.*dequantize\(\)",
    ),
    "names": (named, r"rename\(None\)"),
    "mkldnn": (lambda: torch.zeros(3).to_mkldnn(), r"to_dense\(\)"),
    "no memory": (resized, "has no memory"),
    "a context that cannot travel": (
        lambda: Pair(torch.ones(1), torch.ones(1), object()),
        "Pair.__tensor_flatten__ gives: builtins.object cannot travel",
    ),
    "an inner tensor that cannot travel": (
        lambda: Pair(torch.ones(1), torch.ones(1).as_subclass(type("Mine", (torch.Tensor,), {}))),
        "Pair.__tensor_flatten__ gives: Mine is a subclass",
    ),
    "a layer": (lambda: torch.nn.Linear(1, 1), "Linear cannot travel"),
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


# What a peer may say. ----------------------------------------------------------------------------


def said(*record: Any, tensors: Any = (), as_: Any = None) -> Any:
    """What becomes of a record that a hand-made publisher sends, with tensors beside it."""
    with joined(subscriber={"as_": as_}) as (publisher, subscriber):
        outgoing = Outgoing()
        references = [
            msgspec.msgpack.Ext(1, outgoing.add(tensor).to_bytes(4, "little")) for tensor in tensors
        ]
        fields = msgspec.msgpack.encode([*record, *references])
        publisher._core.publish(
            outgoing, msgspec.msgpack.encode(msgspec.msgpack.Ext(3, fields)), 0, None
        )
        return subscriber.receive().data


def longs(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.int64)


HOSTILE: dict[str, tuple[tuple[Any, ...], list[Any]]] = {
    "a COO index beyond": (("torch.sparse", "sparse_coo", [3], False, 4), [longs([5]), longs(1)]),
    "a negative COO index": (
        ("torch.sparse", "sparse_coo", [3], False, 4),
        [longs([-1]), longs(1)],
    ),
    "not coalesced": (
        ("torch.sparse", "sparse_coo", [3], True, 4),
        [longs([1, 0]), longs(1, 2)],
    ),
    "negative sizes": (("torch.sparse", "sparse_coo", [-3], False, 4), [longs([0]), longs(1)]),
    "a CSR column beyond": (
        ("torch.sparse", "sparse_csr", [1, 3], False, 4),
        [longs(0, 1), longs(7), longs(1)],
    ),
    "CSR rows beyond": (
        ("torch.sparse", "sparse_csr", [1, 3], False, 4),
        [longs(0, 9), longs(0), longs(1)],
    ),
    "an unknown layout": (("torch.sparse", "strided", [3], False, 4), [longs([0]), longs(1)]),
    "sparse parts that are numbers": (("torch.sparse", "sparse_coo", [3], False, 4, 1, 2), []),
    "sparse without parts": (("torch.sparse", "sparse_coo", [3], False, 4), []),
    "an int that requires gradients": (
        ("torch.sparse", "sparse_coo", [3], False, 6),
        [longs([0]), longs(1)],
    ),
    "nested beyond its buffer": (
        ("torch.nested", 4),
        [longs(1, 2), longs([100]), longs([1]), longs(0)],
    ),
    "nested before its buffer": (
        ("torch.nested", 4),
        [longs(1, 2), longs([1]), longs([1]), longs(-5)],
    ),
    "nested sizes of another shape": (
        ("torch.nested", 4),
        [longs(1, 2), longs(1, 1, 1), longs([1]), longs(0)],
    ),
    "jagged beyond its values": (
        ("torch.jagged", 4),
        [longs([1], [2]), longs(0, 100), longs(100), longs(1)],
    ),
    "meta of negative size": (("torch.meta", "float32", [-1], [1], 4), []),
    "meta of words": (("torch.meta", "float32", ["a"], [1], 4), []),
    "meta of too few strides": (("torch.meta", "float32", [1, 2], [1], 4), []),
    "a size that is none": (("torch.Size", "a"), []),
    "a device that is none": (("torch.device", "no such device"), []),
    "a subclass that refuses": (
        ("torch.subclass", __name__, "Pair", 4, [1], [1], {"a": 1}, {"name": None}),
        [],
    ),
    "a subclass without a context": (("torch.subclass", __name__, "Pair", 4, [1], [1], {}), []),
    "a module that is a list": (("torch.subclass", [], "Pair", 4, [1], [1], {}, {}), []),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_record_that_makes_no_sense_is_a_protocol_error(name: str) -> None:
    record, tensors = HOSTILE[name]
    with pytest.raises(tb.ProtocolError, match="sample"):
        said(*record, tensors=tensors)


def test_jagged_offsets_that_reach_beyond_are_refused() -> None:
    for offsets in ([0, 3], [-1, 2], [2, 1]):
        outgoing = Outgoing()
        values = msgspec.msgpack.Ext(1, outgoing.add(torch.ones(2, 3)).to_bytes(4, "little"))
        others = msgspec.msgpack.Ext(1, outgoing.add(longs(*offsets)).to_bytes(4, "little"))
        fields = msgspec.msgpack.encode(["torch.jagged", 4, values, others, None, 1])
        with joined() as (publisher, subscriber):
            publisher._core.publish(
                outgoing, msgspec.msgpack.encode(msgspec.msgpack.Ext(3, fields)), 0, None
            )
            with pytest.raises(tb.ProtocolError, match="reaches beyond its values"):
                _ = subscriber.receive().data


@pytest.mark.parametrize("name", ["no_such_dtype", "Tensor", 7])
def test_a_dtype_that_this_torch_lacks_is_unsupported(name: object) -> None:
    with pytest.raises(tb.Unsupported, match=f"no dtype {name}"):
        said("torch.dtype", name)


@pytest.mark.parametrize("kind", [("os", "system"), ("torch", "nn"), (__name__, "REFUSED")])
def test_what_is_no_subclass_is_not_called(kind: tuple[str, str]) -> None:
    with pytest.raises(tb.Unsupported, match="does not know"):
        said("torch.subclass", *kind, 4, [1], [1], {}, {})


FLAGS = {
    "an int that requires gradients": ("int64", 4 | 2),
    "an int parameter that does": ("int64", 4 | 2 | 16),
    "a negative bool": ("bool", 4 | 64),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_that_make_no_sense_are_a_protocol_error(name: str) -> None:
    dtype, flags = FLAGS[name]
    memory = np.zeros(64, np.uint8)
    with joined() as (publisher, subscriber):
        outgoing = Outgoing()
        outgoing.add_memory(memory.ctypes.data, dtype, [2], [1], flags, memory)
        publisher._core.publish(outgoing, b"", 0, None)
        with pytest.raises(tb.ProtocolError, match="sample"):
            _ = subscriber.receive().data


# Who keeps what. ---------------------------------------------------------------------------------


KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.ones(3),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "conjugate": lambda: torch.ones(3, dtype=torch.complex64).conj(),
    "meta": lambda: torch.ones(3, device="meta"),
    "a subclass": lambda: Pair(torch.ones(3), torch.ones(3)),
    "COO": SPARSE["COO, coalesced"],
    "CSR": SPARSE["CSR"],
    "nested": NESTED["strided"],
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: {"a": [t, (t,)]}])
def test_nothing_is_kept_alive_that_nobody_needs(name: str, wrap: Callable[[Any], Any]) -> None:
    with joined() as (publisher, subscriber):
        gc.collect()
        gc.disable()
        try:
            tensor = KINDS[name]()
            sent = weakref.ref(tensor)
            publisher.publish(wrap(tensor))
            del tensor
            assert sent() is None
            sample = subscriber.receive()
            data = sample.data
            arrived = weakref.ref(data["a"][0] if isinstance(data, dict) else data)
            del sample, data
            assert arrived() is None
            assert subscriber.stats["held"] == 0
        finally:
            gc.enable()


def test_a_refusal_keeps_nothing_alive() -> None:
    with joined() as (publisher, _):
        gc.collect()
        gc.disable()
        try:
            good, bad = torch.ones(3), torch.ones(3).as_subclass(type("Mine", (torch.Tensor,), {}))
            references = [weakref.ref(good), weakref.ref(bad)]
            with pytest.raises(tb.Unsupported) as refusal:
                publisher.publish([good, {"bad": bad}])
            del good, bad, refusal
            assert [reference() for reference in references] == [None, None]
        finally:
            gc.enable()


def write_to_what_came_back() -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        tensors = subscriber.receive().data
        assert [tensor.clone().add_(1).sum().item() for tensor in tensors] == [6, 6]


def test_a_clone_of_what_arrived_can_be_written_to(elsewhere: Elsewhere) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish([torch.ones(3), torch.ones(3)])
        elsewhere.start(write_to_what_came_back).finish()
