"""Any message arrives as it was: type, dtype, shape, strides, flags, bits, and who overlaps whom.

What a message is is told by `portrait`, which knows nothing of the package, and runs at both ends.
TENSORBUS_EXAMPLES is how many messages are tried.
"""

from __future__ import annotations

import collections
import ctypes
import hashlib
import logging
import os
import struct
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, hear, tell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
two_tensor = pytest.importorskip("torch.testing._internal.two_tensor")

# All tensors of a message are views of these, far too small for thin views to be packed.
BUFFERS = 2
BUFFER_BYTES = 4096


# What a message is. ------------------------------------------------------------------------------


def portrait(message: Any) -> tuple[Any, list[tuple[int, int, int]]]:
    """All there is to say about a message, and which of its tensors overlap, how far apart."""
    places: list[tuple[int, int, int]] = []
    told = told_of(message, places)
    overlaps = [
        (i, j, second[2] - first[2])
        for j, second in enumerate(places)
        for i, first in enumerate(places[:j])
        if first[0] < second[1] and second[0] < first[1]
    ]
    return told, overlaps


def told_of(value: Any, places: list[tuple[int, int, int]]) -> Any:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, torch.Tensor):
        return name, *told_of_tensor(value, lambda part: told_of(part, places), places)
    if isinstance(value, np.ndarray):
        dtype, shape, strides = value.dtype, value.shape, value.strides
        kept = [s for n, s in zip(shape, strides, strict=True) if n > 1] if value.size else None
        address = value.__array_interface__["data"][0]
        bits = bits_at(address, shape, strides, dtype.itemsize, places)
        return name, told_of_dtype(dtype), shape, kept, bits
    if isinstance(value, np.generic):
        bits = value.tobytes() if value.dtype.itemsize else b""
        return name, told_of_dtype(value.dtype), bits
    if isinstance(value, np.dtype):
        return "numpy.dtype", told_of_dtype(value)
    if isinstance(value, dict):
        return name, [(told_of(k, places), told_of(v, places)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return name, [told_of(item, places) for item in value]
    if isinstance(value, (set, frozenset)):
        return name, sorted(repr(told_of(item, places)) for item in value)
    if isinstance(value, (float, complex)):
        return name, struct.pack("<dd", value.real, value.imag)
    return name, repr(value)


def told_of_tensor(
    tensor: Any, told_of_part: Callable[[Any], Any], places: list[tuple[int, int, int]]
) -> tuple[Any, ...]:
    told = [
        *(str(tensor.dtype), str(tensor.layout), str(tensor.device), tensor.ndim),
        *(tensor.requires_grad, tensor.is_leaf, isinstance(tensor, torch.nn.Parameter)),
    ]
    plain = tensor.detach()
    if tensor.is_nested and tensor.layout == torch.jagged:
        parts = [plain._values, *numbers(plain._offsets, plain._lengths), plain._ragged_idx]
    elif tensor.is_nested:
        parts = [
            plain.values(),
            plain._nested_tensor_size().tolist(),
            plain._nested_tensor_strides().tolist(),
            plain._nested_tensor_storage_offsets().tolist(),
        ]
    elif hasattr(tensor, "__tensor_flatten__"):
        names, context = plain.__tensor_flatten__()
        parts = [*(getattr(plain, name) for name in names), context, tensor.shape, tensor.stride()]
    elif tensor.layout == torch.sparse_coo:
        parts = [*numbers(plain._indices()), plain._values(), tensor.is_coalesced(), tensor.shape]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        indices = numbers(plain.crow_indices(), plain.col_indices())
        parts = [*indices, plain.values(), tensor.shape]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        indices = numbers(plain.ccol_indices(), plain.row_indices())
        parts = [*indices, plain.values(), tensor.shape]
    else:
        told += [tuple(tensor.shape), tensor.stride(), tensor.is_conj(), tensor.is_neg()]
        if not tensor.is_meta:
            item = tensor.element_size()
            strides = tuple(stride * item for stride in tensor.stride())
            told.append(bits_at(plain.data_ptr(), tuple(tensor.shape), strides, item, places))
        return tuple(told)
    return *told, *map(told_of_part, parts)


def numbers(*indices: Any) -> list[Any]:
    """Each process has indices and offsets of its own: how they lie in memory is not sent."""
    return [None if part is None else [str(part.dtype), part.tolist()] for part in indices]


def told_of_dtype(dtype: Any) -> Any:
    if dtype.subdtype is not None:
        return told_of_dtype(dtype.subdtype[0]), dtype.shape
    told = (dtype.name, dtype.str, dtype.type.__name__, dtype.itemsize)
    if dtype.names is None:
        return told
    fields = [(name, *dtype.fields[name]) for name in dtype.names]
    return *told, dtype.isalignedstruct, [(f[0], told_of_dtype(f[1]), f[2:]) for f in fields]


def bits_at(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    item: int,
    places: list[tuple[int, int, int]],
) -> str:
    """The elements as they lie in memory, and a note of where that is."""
    if 0 in shape or item == 0:
        return "nothing"
    reaches = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    begin = address + sum(reach for reach in reaches if reach < 0)
    end = address + sum(reach for reach in reaches if reach > 0) + item
    places.append((begin, end, address))
    raw = (ctypes.c_ubyte * (end - begin)).from_address(begin)
    elements = np.ndarray((*shape, item), np.uint8, raw, address - begin, (*strides, 1))
    return hashlib.sha1(elements.tobytes()).hexdigest()


# The other process. ------------------------------------------------------------------------------


def send_back() -> None:
    logging.disable()  # PyTorch has something to say about tracing
    assert two_tensor.TwoTensor  # a class has to be known where it arrives
    with (
        tb.Subscriber("there", timeout=PATIENCE) as subscriber,
        tb.Publisher("back") as publisher,
    ):
        while hear() == "one more":
            try:
                data = subscriber.receive().data
                told = portrait(data)
                publisher.publish(data)
            except Exception:
                told = traceback.format_exc()
            tell(told)


class Mirror:
    """Another process that says what it received, and sends it back."""

    def __init__(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("mirror")
        self._domain = str(folder / "domain")
        self._elsewhere = Elsewhere(folder)
        self._publisher = tb.Publisher("there", domain=self._domain)
        self._subscriber = tb.Subscriber("back", domain=self._domain, timeout=PATIENCE)
        self._process: Process | None = None

    def shows(self, message: Any) -> tuple[Any, Any]:
        """What the other process says of a message, and what comes back."""
        if self._process is None:
            env = {
                "TENSORBUS_DOMAIN": self._domain,
                "PYTHONWARNINGS": "ignore",
            }  # PyTorch says "beta"
            self._process = self._elsewhere.start(send_back, env=env)
            assert self._publisher.wait_for_subscribers(timeout=PATIENCE)
            assert self._subscriber.wait_for_publishers(timeout=PATIENCE)
        self._publisher.publish(message)
        self._process.tell("one more")
        try:
            told = self._process.hear()
        except AssertionError:  # it died: the next example gets another
            self._process.kill()
            self._process = None
            raise
        assert isinstance(told, tuple), f"elsewhere: {told}"
        return told, self._subscriber.receive().data

    def close(self) -> None:
        if self._process is not None:
            self._process.tell("enough")
        self._elsewhere.finish()
        self._publisher.close()
        self._subscriber.close()


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    mirror = Mirror(tmp_path_factory)
    yield mirror
    mirror.close()


# Any message. ------------------------------------------------------------------------------------

TORCH_DTYPES = sorted(
    {
        dtype
        for dtype in vars(torch).values()
        if isinstance(dtype, torch.dtype) and not str(dtype).startswith(("torch.q", "torch.bit"))
    }
    | {getattr(torch, f"bits{bits}") for bits in ("8", "16", "1x8", "2x4", "4x2")},
    key=str,
)
ML_DTYPES = [
    np.dtype(kind)
    for kind in vars(ml_dtypes).values()
    if isinstance(kind, type) and issubclass(kind, np.generic)
]
# Without long long, which is another name for int64 here, and arrives as that.
PLAIN_DTYPES = [np.dtype(code) for code in np.typecodes["All"] if code not in "OSUVMmqQ"]
DATES = [
    np.dtype(f"{order}{kind}8{unit}")
    for kind in "Mm"
    for unit in ("", "[Y]", "[D]", "[25s]", "[ns]", "[as]")
    for order in "<>"
]

plain_dtypes = st.sampled_from([*PLAIN_DTYPES, *(d.newbyteorder() for d in PLAIN_DTYPES)])
texts = st.builds(
    lambda kind, size: np.dtype(f"{kind}{size}"), st.sampled_from("SUV"), sizes := st.integers(0, 5)
)
simple_dtypes = plain_dtypes | st.sampled_from([*ML_DTYPES, *DATES]) | texts


@st.composite
def structures(draw: Any, inner: Any) -> np.dtype[Any]:
    formats = draw(st.lists(inner, max_size=4))
    names = [f"field {i}" for i in range(len(formats))]
    subarrays = [draw(st.sampled_from([(), (), (2,), (0,), (1, 3)])) for _ in formats]
    formats = [
        np.dtype((f, s)) if s and f.itemsize else f for f, s in zip(formats, subarrays, strict=True)
    ]
    how = draw(st.sampled_from(["packed", "aligned", "placed", "titled", "record"]))
    if how == "placed":  # in any order, with holes, even over one another
        offsets = [draw(st.integers(0, 20)) for _ in formats]
        ends = [o + f.itemsize for o, f in zip(offsets, formats, strict=True)]
        size = max(ends, default=0) + draw(st.integers(0, 5))
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    if how == "titled":
        names = [(f"title {name}", name) for name in names]  # type: ignore[misc]
    dtype = np.dtype(list(zip(names, formats, strict=True)), align=how == "aligned")
    return np.dtype((np.record, dtype)) if how == "record" and names else dtype


numpy_dtypes = simple_dtypes | structures(simple_dtypes | structures(simple_dtypes))
shapes = st.lists(st.integers(0, 4), max_size=4)


def places_in(draw: Any, shape: list[int], item: int, step: int) -> tuple[int, list[int]] | None:
    """An offset and strides that stay inside a buffer, in bytes, multiples of a step."""
    strides = []
    for _ in shape:
        strides.append(
            step * draw(st.integers(-3 * max(item, 1) // step, 3 * max(item, 1) // step))
        )
    if draw(st.booleans()):  # as most arrays are, in any order
        order = draw(st.permutations(range(len(shape))))
        stride = item
        for axis in order:
            strides[axis] = stride
            stride *= max(shape[axis], 1) + draw(st.sampled_from([0, 0, 1]))
    reaches = [(n - 1) * s for n, s in zip(shape, strides, strict=True) if 0 not in shape]
    low = -sum(r for r in reaches if r < 0)
    high = sum(r for r in reaches if r > 0) + item
    if low + high > BUFFER_BYTES - 64:
        return None
    return low + step * draw(st.integers(0, 64 // step)), strides


def an_array(draw: Any, buffers: list[Any]) -> Any:
    dtype = draw(numpy_dtypes)
    shape = draw(shapes)
    place = places_in(draw, shape, dtype.itemsize, draw(st.sampled_from([1, 8])))
    if place is None or dtype.itemsize == 0:
        return np.zeros(shape, [("only", dtype)])["only"]
    buffer = draw(st.sampled_from(buffers))
    if dtype.kind == "b":
        buffer = buffer & 1
    if "U" in str(dtype):  # any bytes are no text
        buffer = buffer & 0
    return np.ndarray(shape, dtype, buffer, *place)


torch_dtypes = st.sampled_from(TORCH_DTYPES)


def a_tensor(draw: Any, buffers: list[Any], dtypes: Any = torch_dtypes) -> Any:
    dtype = draw(dtypes)
    item = torch.empty(0, dtype=dtype).element_size()
    shape = draw(shapes)
    place = places_in(draw, shape, item, item)
    if place is None or min(place[1], default=0) < 0:
        return torch.empty(shape, dtype=torch.uint8).zero_()
    buffer = torch.from_numpy(draw(st.sampled_from(buffers)))
    if dtype == torch.bool:
        buffer = buffer & 1
    strides = [stride // item for stride in place[1]]
    return buffer.view(dtype).as_strided(shape, strides, place[0] // item)


def a_leaf_or_parameter(draw: Any, buffers: list[Any]) -> Any:
    tensor = a_tensor(draw, buffers)
    may_have_gradients = tensor.is_floating_point() or tensor.is_complex()
    requires_grad = may_have_gradients and draw(st.booleans())
    if draw(st.booleans()):
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.detach().requires_grad_(requires_grad)


COMPLEX = st.sampled_from([torch.complex64, torch.complex128, torch.complex32])


def a_conjugate(draw: Any, buffers: list[Any]) -> Any:
    tensor = a_tensor(draw, buffers, COMPLEX)
    if not tensor.is_complex():
        return tensor
    what = draw(st.sampled_from(["conj", "imag", "neg", "both", "leaf"]))
    if what == "imag":
        return tensor.conj().imag
    if what == "neg":
        return torch._neg_view(tensor)
    if what == "both":
        return torch._neg_view(tensor.conj())
    return tensor.conj().detach().requires_grad_(what == "leaf")


def on_meta(draw: Any, buffers: list[Any]) -> Any:
    tensor = a_tensor(draw, buffers)
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    if made.is_complex() and draw(st.booleans()):
        made = made.conj()
    if made.is_floating_point() and draw(st.booleans()):
        made.requires_grad_()
    return torch.nn.Parameter(made, False) if draw(st.booleans()) else made


SUMMABLE = [torch.float32, torch.float64, torch.int64, torch.complex64, torch.bool, torch.float16]


def a_sparse_tensor(draw: Any, buffers: list[Any]) -> Any:
    dtype = draw(st.sampled_from(SUMMABLE))
    seed = draw(st.integers(0, 99))
    numbers = torch.Generator().manual_seed(seed)
    layout = draw(st.sampled_from(["coo", "coalesced", "csr", "csc", "bsr", "bsc"]))
    rows, columns = 2 * draw(st.integers(0, 3)), 2 * draw(st.integers(0, 3))
    if layout in ("coo", "coalesced"):
        count = draw(st.integers(0, 5)) if rows and columns else 0
        indices = torch.stack(
            [torch.randint(max(n, 1), (count,), generator=numbers) for n in (rows, columns)]
        )
        inner = draw(st.sampled_from([(), (3,), (0,)]))
        values = torch.randint(2, (count, *inner), generator=numbers).to(dtype)
        tensor = torch.sparse_coo_tensor(indices, values, (rows, columns, *inner))
        if layout == "coalesced" and dtype not in (torch.bool, torch.float16):
            tensor = tensor.coalesce()
    else:
        dense = torch.randint(2, (rows, columns), generator=numbers).to(dtype)
        blocks = ((2, 2),) if layout.startswith("b") else ()
        tensor = getattr(dense, f"to_sparse_{layout}")(*blocks)
    if dtype.is_floating_point and draw(st.booleans()):
        tensor = tensor.detach().requires_grad_()
    return tensor


def a_nested_tensor(draw: Any, buffers: list[Any]) -> Any:
    dtype = draw(st.sampled_from(SUMMABLE))
    columns = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(0, 4), max_size=3))
    parts = [torch.full((length, columns), i + 1).to(dtype) for i, length in enumerate(lengths)]
    if parts and draw(st.booleans()):
        nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
        if draw(st.booleans()):
            nested = nested.transpose(1, 2)
        elif draw(st.booleans()):
            wide = torch.zeros(len(parts), 4, columns, dtype=dtype)
            nested = torch.nested.narrow(wide, 1, 0, torch.tensor(lengths), layout=torch.jagged)
    else:
        nested = torch.nested.nested_tensor(parts, dtype=dtype)
        if parts and draw(st.booleans()):
            nested = nested.transpose(1, 2)
    nested = nested.detach()
    return nested.requires_grad_(dtype.is_floating_point and draw(st.booleans()))


def a_subclass(draw: Any, buffers: list[Any]) -> Any:
    tensor = a_tensor(draw, buffers, st.sampled_from(SUMMABLE))
    pair = two_tensor.TwoTensor(tensor, tensor)  # it insists on parts that lie in the same way
    if draw(st.booleans()):
        pair = two_tensor.TwoTensor(tensor.clone(), tensor.clone())
    if draw(st.booleans()):
        pair = two_tensor.TwoTensor(pair, pair)
    if not tensor.is_floating_point():
        return pair
    if draw(st.booleans()):
        return torch.nn.Parameter(pair, draw(st.booleans()))
    return pair.detach().requires_grad_(draw(st.booleans()))


def a_numpy_scalar(draw: Any, buffers: list[Any]) -> Any:
    dtype = draw(numpy_dtypes)
    if dtype.kind == "U" or dtype.itemsize == 0:
        return np.str_(draw(st.text(max_size=5)))
    if dtype.kind == "S":
        return np.bytes_(draw(st.binary(max_size=5)))
    bits = 0 if "U" in str(dtype) else 1  # any bytes are no text
    raw = (draw(st.sampled_from(buffers)) & bits)[: dtype.itemsize]
    return raw.view(dtype)[0]


TENSORS = [
    *(an_array, an_array, a_tensor, a_tensor, a_leaf_or_parameter, a_conjugate, on_meta),
    *(a_sparse_tensor, a_nested_tensor, a_subclass, a_numpy_scalar),
]
WORDS = [torch.float32, torch.bits8, torch.Size([]), torch.Size([2, 3]), torch.device("cuda:1")]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.sampled_from(WORDS)
    | numpy_dtypes
)
numbers_of_numpy = st.builds(
    lambda kind, value: kind(value),
    st.sampled_from([np.int8, np.uint64, np.float16, np.float32, np.complex64, np.longdouble]),
    st.integers(0, 100),
)
hashable = st.recursive(
    scalars | numbers_of_numpy | st.text().map(np.str_) | st.binary().map(np.bytes_),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)


@st.composite
def messages(draw: Any) -> Any:
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    buffers = [random.integers(0, 256, BUFFER_BYTES, np.uint8) for _ in range(BUFFERS)]
    return draw(message_with(draw, buffers))


def message_with(draw: Any, buffers: list[Any]) -> Any:
    @st.composite
    def tensors(draw: Any) -> Any:
        return draw(st.sampled_from(TENSORS))(draw, buffers)

    return st.recursive(
        tensors() | tensors() | tensors() | hashable | st.sets(hashable, max_size=3),
        lambda inner: (
            st.lists(inner, max_size=6)
            | st.lists(inner, max_size=6).map(tuple)
            | inner.map(lambda value: [value, value])
            | st.dictionaries(hashable, inner, max_size=4)
            | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
            | st.dictionaries(st.text(), inner, max_size=4).map(collections.OrderedDict)
        ),
        max_leaves=12,
    )


@pytest.mark.timeout(0 if "TENSORBUS_EXAMPLES" in os.environ else 240)
@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=int(os.environ.get("TENSORBUS_EXAMPLES", "300")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(message=messages())
def test_any_message_arrives_and_comes_back_as_it_was(mirror: Mirror, message: Any) -> None:
    told = portrait(message)
    told_there, back = mirror.shows(message)
    assert told_there == told
    assert portrait(back) == told
