"""Any picklable object, with its tensors by reference."""

from __future__ import annotations

import enum
import functools
import multiprocessing
import operator
import pickle
import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest

import tensorbus as tb
from support.harness import Elsewhere, tell
from tensorbus import _core
from tensorbus._pickling import pickler, torch_sharing

np = pytest.importorskip("numpy", reason="NumPy is not installed")


def passed_on(item: object, *, shared: bool = False, access: str = "read") -> Any:
    """The item as it arrives: shared, attached and loaded in this process."""
    outgoing, fields = pickler.dump(item, shared=shared)
    home = tb.participant()
    kept = _core.share(outgoing, fields, 0, None, shared, home)
    core = _core.attach(kept.handle, getattr(_core.Access, access.upper()), None, home)
    assert isinstance(core, _core.Sample)
    return pickler.load(core)


def shared_with(item: object) -> Any:
    """The same, as multiprocessing does it: both sides may write."""
    return passed_on(item, shared=True, access="shared")


class Colour(enum.Enum):
    RED = 1


@dataclass
class Batch:
    image: Any
    label: Any
    extra: dict[str, Any] = field(default_factory=dict)


class Linked:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.me = self


def test_what_has_no_tensors_is_a_pickle() -> None:
    item = {"a": [1, 2.5, None], (1, 2): {3}, "big": 2**100, "colour": Colour.RED, "f": len}
    assert passed_on(item) == item


def test_a_lone_array_has_no_fields() -> None:
    outgoing, fields = pickler.dump(np.arange(3))
    assert (len(outgoing), fields) == (1, b"")


def test_a_lone_tensor_has_no_fields(torch: Any) -> None:
    outgoing, fields = pickler.dump(torch.nn.Parameter(torch.zeros(3)), shared=True)
    assert (len(outgoing), fields) == (1, b"")


def test_arrays_are_found_in_classes_closures_and_containers() -> None:
    item = Batch(np.arange(6).reshape(2, 3), functools.partial(operator.add, np.ones(2)), {"x": ()})
    outgoing, _ = pickler.dump(item)
    assert len(outgoing) == 2
    seen = passed_on(item)
    assert type(seen) is Batch
    assert (seen.image == item.image).all()
    assert seen.label(1).tolist() == [2, 2]
    assert seen.extra == {"x": ()}


def test_an_object_that_holds_itself_and_an_array() -> None:
    seen = passed_on(Linked(np.arange(3)))
    assert seen.me is seen
    assert seen.value.tolist() == [0, 1, 2]


def test_the_same_tensor_twice_is_one(torch: Any) -> None:
    tensor, array = torch.arange(3), np.arange(3)
    seen = passed_on([tensor, {"again": tensor}, array, array])
    assert seen[0] is seen[1]["again"]
    assert seen[2] is seen[3]


def test_large_arrays_are_not_in_the_pickle() -> None:
    _, fields = pickler.dump({"a": np.zeros(100_000)})
    assert len(fields) < 1000


def test_views_of_one_tensor_stay_views(torch: Any) -> None:
    whole = torch.arange(10.0)
    seen = shared_with({"whole": whole, "part": whole[2:5], "column": whole.view(2, 5)[:, 1]})
    seen["part"][0] = 100
    assert seen["whole"][2] == 100
    seen["whole"][6] = -1
    assert seen["column"].tolist() == [1, -1]
    cdata = {tensor.untyped_storage()._cdata for tensor in seen.values()}
    assert len(cdata) == 1


@pytest.mark.usefixtures("all_views_move")
def test_a_tensor_moves_when_it_is_first_sent_and_all_see_what_is_written(torch: Any) -> None:
    whole = torch.arange(10.0)
    view = whole[2:5]  # made before
    seen = shared_with([view])[0]
    again = shared_with(whole)
    seen[0] = 7
    assert view[0] == whole[2] == again[2] == 7
    whole[9] = -9
    assert again[9] == -9
    assert whole.data_ptr() == view.data_ptr() - 8


@pytest.mark.filterwarnings("ignore")  # "deprecated"
@pytest.mark.parametrize("swaps", [True, False])
def test_what_moves_stays_what_it_was(
    torch: Any, monkeypatch: pytest.MonkeyPatch, swaps: bool
) -> None:
    if not swaps:  # as with older PyTorch
        monkeypatch.setattr(torch_sharing, "move_storage", lambda storage: False)
    conjugate = torch.tensor([1 + 2j]).conj()
    negative = torch._neg_view(torch.ones(2))
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.quint8)
    whole = torch.arange(4.0)
    part = whole[1:3]
    seen = shared_with([conjugate, negative, quantized, whole, part])
    for first, second, third, *views in ([conjugate, negative, quantized, whole, part], seen):
        assert first.is_conj()
        assert first.tolist() == [1 - 2j]
        assert second.is_neg()
        assert second.tolist() == [-1, -1]
        assert third.dequantize().tolist() == [1, 1]
        assert [view.tolist() for view in views] == [[0, 1, 2, 3], [1, 2]]
    seen[4][0] = 9
    assert whole[1] == part[0] == seen[3][1] == 9


def test_a_moved_tensor_is_sent_again_without_a_copy(torch: Any) -> None:
    tensor = torch.zeros(1000)
    first = shared_with(tensor)
    used = tb.participant().arena["used_bytes"]
    second = shared_with(tensor)
    assert tb.participant().arena["used_bytes"] == used
    assert first.data_ptr() == second.data_ptr()


def test_a_pytorch_that_cannot_swap_memory_moves_the_tensor_that_is_sent(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorbus._pickling import torch_sharing

    monkeypatch.setattr(torch_sharing, "move_storage", lambda storage: False)
    parameter = torch.nn.Parameter(torch.ones(2, 3).t())
    seen = shared_with([parameter])[0]
    with torch.no_grad():
        seen[0, 1] = 5
    assert parameter[0, 1] == 5
    place = parameter.data_ptr()
    shared_with(parameter)
    assert parameter.data_ptr() == place


def test_what_was_received_goes_on_by_reference(torch: Any) -> None:
    tensor = torch.zeros(10)
    second = shared_with({"again": shared_with(tensor)})["again"]
    second[3] = 3
    assert tensor[3] == 3


def test_arrays_are_shared_onwards_too() -> None:
    first = shared_with(np.zeros(10))
    second = shared_with([first])[0]
    second[1] = 5
    assert first[1] == 5


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_tensor_over_a_file_stays_there(torch: Any, tmp_path: Any, mode: Any) -> None:
    np.arange(10, dtype="float32").tofile(tmp_path / "x")
    tensor = tb.map_file(tmp_path / "x", -1, torch.float32, mode)
    place = tensor.data_ptr()
    seen = shared_with([tensor])[0]
    assert tensor.data_ptr() == place
    if mode == "r+":
        seen[1] = 50
        assert tensor[1] == 50
        assert tensor.untyped_storage().nbytes() >= 40


def test_memory_goes_with_the_last_tensor(torch: Any) -> None:
    from support.harness import eventually

    def send() -> None:
        tensor = torch.zeros(10_000)
        shared_with([tensor, tensor[1:]])

    send()
    eventually(lambda: tb.participant().arena["used_bytes"] == 0)


def test_without_shared_the_tensor_stays_where_it_is(torch: Any) -> None:
    tensor = torch.zeros(10)
    place = tensor.data_ptr()
    passed_on([tensor])
    assert tensor.data_ptr() == place


def test_parameters_leaves_and_modules(torch: Any) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    leaf = torch.ones(2, requires_grad=True)
    model = torch.nn.Linear(3, 2)
    seen = shared_with({"p": parameter, "leaf": leaf, "model": model})
    assert type(seen["p"]) is torch.nn.Parameter
    assert seen["p"].requires_grad
    assert seen["leaf"].is_leaf
    assert seen["leaf"].requires_grad
    with torch.no_grad():
        seen["model"].weight.fill_(4)
    assert (model.weight == 4).all()
    assert model.weight.requires_grad
    model(torch.ones(3)).sum().backward()  # the moved ones still learn
    assert model.weight.grad is not None


@pytest.mark.parametrize("shared", [False, True])
def test_a_tensor_with_a_history_is_refused_as_pytorch_does(torch: Any, shared: bool) -> None:
    tensor = torch.ones(3, requires_grad=True) * 2
    for item in (tensor, [tensor]):
        with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
            pickler.dump(item, shared=shared)


def test_hooks_stay_behind_with_a_warning(torch: Any) -> None:
    tensor = torch.ones(3, requires_grad=True)
    tensor.register_hook(lambda gradient: gradient)
    with pytest.warns(UserWarning, match="backward hook"):
        shared_with(tensor)


@pytest.mark.parametrize("shared", [False, True])
def test_unusual_tensors(torch: Any, shared: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        item = {
            "empty": torch.empty(0, 3),
            "scalar": torch.tensor(2.5),
            "meta": torch.empty(3, 4, device="meta"),
            "sparse": torch.eye(3).to_sparse(),
            "csr": torch.eye(3).to_sparse_csr(),
            "conj": torch.tensor([1 + 2j]).conj(),
            "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            "quantized": torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.quint8),
            "bfloat16": torch.ones(2, dtype=torch.bfloat16),
            "strided": torch.arange(12).view(3, 4).t(),
        }
        seen = passed_on(item, shared=shared)
        assert seen["empty"].shape == (0, 3)
        assert seen["scalar"] == 2.5
        assert seen["meta"].is_meta
        assert torch.equal(seen["sparse"].to_dense(), torch.eye(3))
        assert torch.equal(seen["csr"].to_dense(), torch.eye(3))
        assert seen["conj"].is_conj()
        assert [part.numel() for part in seen["nested"].unbind()] == [2, 3]
        assert seen["quantized"].dequantize().tolist() == [1, 1]
        assert seen["bfloat16"].dtype == torch.bfloat16
        assert torch.equal(seen["strided"], item["strided"])


@pytest.mark.usefixtures("all_views_move")
def test_a_storage_by_itself(torch: Any) -> None:
    tensor = torch.zeros(4)
    storage = shared_with([tensor.untyped_storage()])[0]
    storage[0] = 1
    assert tensor.view(torch.uint8)[0] == 1


def test_unusual_arrays() -> None:
    item = [
        np.array([{"a": 1}, None], dtype=object),
        np.zeros(2, [("x", "i4"), ("y", "f8")]),
        np.arange(6).reshape(2, 3)[:, ::-1],
        np.array(["2020-01-01"], "M8[D]"),
        np.float32(1.5),
        np.ma.masked_array([1, 2], [True, False]),
    ]
    seen = passed_on(item)
    assert seen[0].tolist() == [{"a": 1}, None]
    for sent, got in zip(item[1:], seen[1:], strict=True):
        assert got.dtype == sent.dtype
        assert got.tolist() == sent.tolist()
    assert passed_on(item[0]).tolist() == [{"a": 1}, None]


def test_what_cannot_be_pickled_says_so() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickler.dump([lambda: None, np.zeros(3)])


def test_what_multiprocessing_registers_is_pickled() -> None:
    reader, writer = multiprocessing.Pipe()
    seen = passed_on([reader, np.zeros(2)])
    writer.send(5)
    assert seen[0].recv() == 5


class Registered:
    pass


def test_what_is_registered_later_holds_for_what_was_pickled_before() -> None:
    reduction = multiprocessing.reduction
    assert type(passed_on([Registered(), np.zeros(2)])[0]) is Registered
    reduction.ForkingPickler.register(Registered, lambda _: (str, ("registered",)))
    try:
        assert passed_on([Registered(), np.zeros(2)])[0] == "registered"
    finally:
        del reduction.ForkingPickler._extra_reducers[Registered]  # type: ignore[attr-defined]


def test_attach_does_not_read_a_pickle(elsewhere: Elsewhere) -> None:
    outgoing, fields = pickler.dump({"a": np.zeros(2)})
    kept = _core.share(outgoing, fields, 0, None, False, tb.participant())
    with pytest.raises(tb.Unsupported, match="only queues"):
        tb.attach(bytes(kept.handle.bytes()))

    def attach_it(handle: bytes) -> None:
        import tensorbus as tb

        try:
            tb.attach(handle)
        except tb.Unsupported:
            tell("refused")

    other = elsewhere.start(attach_it, kept.handle.bytes())
    assert other.hear() == "refused"


def test_a_damaged_pickle_is_an_error() -> None:
    from msgspec import msgpack

    record = msgpack.encode(["pickle", "no bytes", []])
    fields = msgpack.encode(msgpack.Ext(3, record))
    kept = _core.share(_core.Outgoing(), fields, 0, None, False, tb.participant())
    core = _core.attach(kept.handle, _core.Access.READ, None, tb.participant())
    assert isinstance(core, _core.Sample)
    with pytest.raises(tb.ProtocolError, match="a malformed pickle"):
        pickler.load(core)
