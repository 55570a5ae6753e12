"""Tensors of any library go in, by DLPack or as buffers, and come out in the library asked for."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import weakref
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import joined


def received(message: Any, library: Any = None) -> Any:
    with joined(subscriber={"library": library}) as (publisher, subscriber):
        publisher.publish(message)
        return subscriber.receive().data


@pytest.fixture
def jax() -> ModuleType:
    module: ModuleType = pytest.importorskip("jax", reason="JAX is not installed")
    return module


# JAX. --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int32", "uint16", "float16", "float32", "bfloat16", "complex64"]
)
def test_a_jax_array_arrives_as_one(jax: ModuleType, dtype: str) -> None:
    sent = jax.numpy.ones((2, 3), dtype)
    back = received({"x": sent})["x"]
    assert isinstance(back, jax.Array)
    assert (back.dtype, back.shape) == (sent.dtype, (2, 3))
    assert (back == sent).all()


def test_a_jax_array_can_be_received_by_others(jax: ModuleType, torch: ModuleType) -> None:
    sent = jax.numpy.arange(6.0).reshape(2, 3)
    assert torch.equal(received(sent, "torch"), torch.arange(6.0).reshape(2, 3))
    assert np.array_equal(received(sent, "numpy"), np.arange(6.0).reshape(2, 3))


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T,
    "every second": lambda a: a[:, ::2],
    "backwards": lambda a: a[::-1],
    "broadcast": lambda a: np.broadcast_to(a[0], (2, 3)),
    "a scalar": lambda a: a[0, 0],
    "empty": lambda a: a[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_array_of_any_layout_becomes_a_jax_array(jax: ModuleType, layout: str) -> None:
    sent = np.asarray(LAYOUTS[layout](np.arange(6, dtype=np.float32).reshape(2, 3)))
    back = received([sent], "jax")[0]
    assert isinstance(back, jax.Array)
    assert (back.dtype, back.shape) == (sent.dtype, sent.shape)
    assert np.array_equal(back, sent)


@pytest.mark.parametrize("name", ["int4", "uint2", "float4_e2m1fn", "float8_e5m2"])
def test_a_dtype_that_dlpack_has_no_name_for_stays_itself_in_jax(
    jax: ModuleType, name: str
) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    back = received(np.array([0, 1], getattr(ml_dtypes, name)), "jax")
    assert back.dtype.name == name
    assert back.astype("float32").tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "complex128"])
def test_jax_does_not_make_a_smaller_dtype_of_it(jax: ModuleType, dtype: str) -> None:
    with joined(subscriber={"library": "jax"}) as (publisher, subscriber):
        publisher.publish(np.ones(3, dtype))
        sample = subscriber.receive()
        with pytest.raises(tb.Unsupported, match=r"jax_enable_x64.*library=\"numpy\""):
            _ = sample.data
        jax.config.update("jax_enable_x64", True)
        try:
            assert sample.data.dtype == dtype
        finally:
            jax.config.update("jax_enable_x64", False)


def test_what_jax_does_not_have_is_refused(jax: ModuleType, torch: ModuleType) -> None:
    with pytest.raises(tb.Unsupported, match="JAX has no complex32"):
        received(torch.ones(2, dtype=torch.complex32), "jax")


# DLPack. -----------------------------------------------------------------------------------------


class Old:
    """A tensor of a library from before DLPack 1.0."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, stream: None = None) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class New(Old):
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **others: Any) -> Any:
        assert max_version >= (1, 0)
        return self.array.__dlpack__(max_version=max_version)


# NumPy's own __dlpack__ takes a version since 2.1.
with_versions = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="this NumPy has DLPack without versions"
)


@pytest.mark.parametrize("producer", [Old, pytest.param(New, marks=with_versions)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tensor_of_any_library_arrives(producer: type, layout: str) -> None:
    sent = np.asarray(LAYOUTS[layout](np.arange(6.0).reshape(2, 3))).copy()
    back = received({"x": producer(sent)})["x"]  # which offers DLPack, too
    assert np.array_equal(np.from_dlpack(back), sent)
    assert np.array_equal(received(producer(sent), "numpy"), sent)


@with_versions
def test_views_by_dlpack_stay_views_of_one_another() -> None:
    whole = np.arange(10.0)
    one, two = received([Old(whole), New(whole[2:])], "numpy")
    assert two.__array_interface__["data"][0] == one.__array_interface__["data"][0] + 16


def test_a_tensor_of_another_library_without_memory_is_refused(torch: ModuleType) -> None:
    tensor = torch.zeros(3)
    tensor.untyped_storage().resize_(0)
    with joined() as (publisher, subscriber):
        with pytest.raises(tb.Unsupported, match="has no memory"):
            publisher.publish(Old(tensor))
        publisher.publish(Old(torch.zeros(0)))  # which needs none
        assert np.from_dlpack(subscriber.receive().data).shape == (0,)


class Refusing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error


@pytest.mark.parametrize("kind", [BufferError, RuntimeError, TypeError, KeyError, OSError])
def test_a_producer_that_refuses_is_refused_with_its_reason(kind: type[Exception]) -> None:
    with joined() as (publisher, _):
        with pytest.raises(
            tb.Unsupported, match=r"data\['x'\]: its __dlpack__\(\) failed: .*on Mars"
        ):
            publisher.publish({"x": Refusing(kind("it is on Mars"))})
        assert publisher.stats["sent"] == 0


class Counting(Old):
    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


def test_a_producer_gets_its_memory_back() -> None:
    class Memory(np.ndarray):
        pass

    gone = []
    memory = np.arange(3.0).view(Memory)
    weakref.finalize(memory, gone.append, 1)
    gc.collect()
    gc.disable()
    try:
        with joined() as (publisher, _):
            publisher.publish([Counting(memory)])
            del memory
            assert gone == [1]
    finally:
        gc.enable()


def test_a_received_sample_can_be_published_again() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(np.arange(3))
        publisher.publish(subscriber.receive())
        assert np.from_dlpack(subscriber.receive().data).tolist() == [0, 1, 2]


# Buffers. ----------------------------------------------------------------------------------------


def mapped() -> Any:
    memory = mmap.mmap(-1, 16)
    memory[:3] = b"abc"
    return memory


BUFFERS: dict[str, Any] = {
    "bytearray": bytearray(b"abc"),
    "memoryview": memoryview(b"abc"),
    "an empty memoryview": memoryview(b""),
    "every second": memoryview(b"abcdef")[::2],
    "backwards": memoryview(b"abcdef")[::-1],
    "two dimensions": memoryview(bytes(range(12))).cast("h", [2, 3]),
    "a bool": memoryview(b"\0\1").cast("?"),
    "no dimensions": memoryview(np.array(7.5)),
    "mmap": mapped(),
    **{f"array of {code}": array.array(code, [1, 2, 3]) for code in "bBhHiIlLqQfd"},
    **{
        f"ctypes {kind.__name__}": (kind * 3)(1, 2, 3)
        for kind in (
            *(ctypes.c_int8, ctypes.c_uint8, ctypes.c_int16, ctypes.c_int, ctypes.c_uint),
            *(ctypes.c_long, ctypes.c_ulonglong, ctypes.c_float, ctypes.c_double, ctypes.c_bool),
        )
    },
    "ctypes of two dimensions": ((ctypes.c_int * 3) * 2)((1, 2, 3), (4, 5, 6)),
    "one of ctypes": ctypes.c_int(7),
}


@pytest.mark.parametrize("name", BUFFERS)
def test_a_buffer_arrives_as_a_memoryview(name: str) -> None:
    sent = BUFFERS[name]
    back = received({"x": sent})["x"]
    view = memoryview(sent)
    assert type(back) is memoryview
    assert not back.readonly
    assert (back.shape, back.itemsize) == (view.shape, view.itemsize)
    assert back.tobytes() == view.tobytes()
    assert back.tolist() == np.asarray(sent).tolist()


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_a_buffer_arrives_as_what_was_asked_for(library: str, torch: ModuleType) -> None:
    for sent in (array.array("d", [1, 2]), (ctypes.c_double * 2)(1, 2)):
        back = received(sent, library)
        assert str(back.dtype).removeprefix("torch.") == "float64"
        assert back.tolist() == [1, 2]


@pytest.mark.parametrize("shrink", ["clear", "close"])
def test_a_buffer_cannot_be_resized_before_it_was_copied(shrink: str) -> None:
    buffer: Any = bytearray(1 << 22) if shrink == "clear" else mmap.mmap(-1, 1 << 22)

    class Meanwhile:
        """What another thread could do."""

        def __dlpack__(self, **options: Any) -> Any:
            getattr(buffer, shrink)()

    with joined() as (publisher, _), pytest.raises(tb.Unsupported, match="xport"):
        publisher.publish([buffer, Meanwhile()])
    getattr(buffer, shrink)()


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))


@pytest.mark.parametrize(
    "value", [(Pair * 2)(), array.array("u", "ab"), memoryview(np.zeros(2, "S3"))]
)
def test_a_buffer_of_other_things_is_refused(value: Any) -> None:
    with joined() as (publisher, _), pytest.raises(tb.Unsupported, match=r"data\[0\]: .*cannot"):
        publisher.publish([value])


# Images. -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "I;16", "F", "1", "YCbCr"])
def test_an_image_of_pillow_arrives_as_an_array(mode: str) -> None:
    image_of = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image = image_of.new(mode, (4, 3))
    back = received({"image": image})["image"]
    assert (back.dtype, back.shape) == (np.asarray(image).dtype, np.asarray(image).shape)
    assert np.array_equal(back, np.asarray(image))


def test_a_frame_of_opencv_arrives() -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
    frame = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    ok, encoded = cv2.imencode(".png", frame)
    assert ok
    decoded = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
    back = received([decoded, decoded[..., ::-1], decoded[1:3, 2:4]])
    assert np.array_equal(back[0], frame)
    assert np.array_equal(back[1], frame[..., ::-1])
    assert back[1].strides == decoded[..., ::-1].strides
    assert np.array_equal(back[2], frame[1:3, 2:4])


# What is asked for. ------------------------------------------------------------------------------


def make(source: str, torch: ModuleType) -> Any:
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    if source == "torch":
        return torch.from_numpy(numbers)
    if source == "parameter":
        return torch.nn.Parameter(torch.from_numpy(numbers))
    if source == "jax":
        return pytest.importorskip("jax").numpy.asarray(numbers)
    if source == "dlpack":
        return New(numbers)
    return memoryview(numbers) if source == "buffer" else numbers  # type: ignore[arg-type]


def kind_of(value: Any) -> str:
    module = type(value).__module__.partition(".")[0]
    return {"jaxlib": "jax", "builtins": "buffer", "tensorbus": "dlpack"}.get(module, module)


@pytest.mark.parametrize("source", ["torch", "parameter", "numpy", "jax", "dlpack", "buffer"])
@pytest.mark.parametrize("library", [None, "torch", "numpy", "jax", "dlpack"])
def test_a_tensor_of_any_library_is_received_as_any_other(
    source: str, library: Any, torch: ModuleType
) -> None:
    if library == "jax":
        pytest.importorskip("jax", reason="JAX is not installed")
    back = received({"x": make(source, torch)}, library)["x"]
    wanted = library or ("torch" if source == "parameter" else source)
    assert kind_of(back) == wanted
    assert np.asarray(back.detach() if wanted == "torch" else back).tolist() == [
        [0, 1, 2],
        [3, 4, 5],
    ]
    if wanted == "torch":
        assert back.requires_grad == (source == "parameter")


@pytest.mark.parametrize("layout", ["backwards", "every second backwards"])
def test_what_torch_has_no_strides_for_is_copied_for_it(layout: str, torch: ModuleType) -> None:
    sent = np.arange(10.0)[:: -1 if layout == "backwards" else -2]
    assert received([sent], "torch")[0].tolist() == sent.tolist()


def test_a_conjugate_view_is_received_by_those_who_can(torch: ModuleType) -> None:
    view = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert received(view, "numpy").tolist() == [1 - 2j, 3 + 4j]
    assert received(view.imag, "numpy").tolist() == [-2, 4]
    for library in ("jax", "dlpack"):
        with pytest.raises(tb.Unsupported, match="only PyTorch has"):
            received(view, library)
