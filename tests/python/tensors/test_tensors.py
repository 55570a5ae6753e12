"""Tensors go to another process and come back as what they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, joined
from support.plain_tensors import (
    NUMPY_DTYPES,
    TORCH_DTYPES,
    TORCH_LAYOUTS,
    arrays_of,
    assert_same_tensor,
    tensor_of,
)


def send_back() -> None:
    with tb.Subscriber("there") as subscriber, tb.Publisher("back") as publisher:
        for sample in subscriber:
            if sample.data is None:
                break
            publisher.publish(sample.data)


@pytest.fixture(scope="module")
def there_and_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Any], Any]]:
    """What arrives here after it arrived in another process and was published there."""
    folder = tmp_path_factory.mktemp("mirror")
    domain = str(folder / "domain")
    mirror = Elsewhere(folder)
    mirror.start(send_back, env={"TENSORBUS_DOMAIN": domain})
    with (
        tb.Publisher("there", domain=domain) as publisher,
        tb.Subscriber("back", domain=domain, timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)

        def through(tensor: Any) -> Any:
            publisher.publish(tensor)
            return subscriber.receive().data

        yield through
        publisher.publish(None)
        mirror.finish()


Through = Callable[[Any], Any]


def assert_same_array(back: Any, array: np.ndarray[Any, Any]) -> None:
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()  # bit by bit, which makes NaN equal to itself


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_an_array_of_every_dtype_keeps_every_bit(there_and_back: Through, dtype: str) -> None:
    array = arrays_of(dtype)
    assert_same_array(there_and_back(array), array)


DENSE = {
    "permuted": lambda a: a.transpose(2, 0, 1),
    "Fortran order": np.asfortranarray,
    "zero-dimensional": lambda a: np.array(a[0, 0, 0]),
    "empty": lambda a: a[:0],
    "empty in the middle": lambda a: a[:, :0],
    "ones": lambda a: a[:1, :1, :1],
}
WITH_HOLES = {
    "every second": lambda a: a[:, ::2],
    "a corner": lambda a: a[1:3, 2:4, 3:5],
    "a column": lambda a: a[:, 3, 3],
    "a permuted corner": lambda a: a[1:3, 2:4, 3:5].transpose(1, 2, 0),
}
BACKWARDS = {
    "backwards": lambda a: a[::-1],
    "all backwards": lambda a: a[::-1, ::-1, ::-1],
    "backwards in steps": lambda a: a[::-2, :, ::-3],
}
REPEATED = {
    "broadcast": lambda a: np.broadcast_to(a[0], (3, *a[0].shape)),
    "one for all": lambda a: np.broadcast_to(a[0, 0, 0], (5, 7)),
    "a sliding window": lambda a: np.lib.stride_tricks.sliding_window_view(a[0, 0], 3),
}


@pytest.mark.parametrize("layout", DENSE | WITH_HOLES | BACKWARDS | REPEATED)
def test_an_array_of_any_layout_keeps_its_elements(there_and_back: Through, layout: str) -> None:
    array = (DENSE | WITH_HOLES | BACKWARDS | REPEATED)[layout](arrays_of("uint16"))
    assert_same_array(there_and_back(array), array)


@pytest.mark.parametrize("layout", DENSE | WITH_HOLES | BACKWARDS | REPEATED)
def test_an_array_of_any_layout_keeps_its_strides(there_and_back: Through, layout: str) -> None:
    array = (DENSE | WITH_HOLES | BACKWARDS | REPEATED)[layout](arrays_of("uint16"))
    if layout in ("ones", "empty in the middle"):
        pytest.skip("NumPy itself sets strides that nobody walks along as it likes")
    assert there_and_back(array).strides == array.strides


def test_a_thin_slice_of_a_large_array_arrives_packed(there_and_back: Through) -> None:
    column = np.arange(1_000_000.0).reshape(1000, 1000)[:, 7]
    back = there_and_back(column)
    assert_same_array(back, column)
    assert back.flags.c_contiguous


def test_a_memory_map_arrives_as_an_array(there_and_back: Through, tmp_path: Any) -> None:
    array = arrays_of("float32")
    array.tofile(tmp_path / "array")
    mapped = np.memmap(tmp_path / "array", np.float32, "r", shape=array.shape)
    assert_same_array(there_and_back(mapped), array)


def test_bfloat16_of_ml_dtypes_comes_back(there_and_back: Through) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    array = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    assert_same_array(there_and_back(array), array)


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_a_tensor_of_every_dtype_keeps_every_bit(
    there_and_back: Through, torch: ModuleType, dtype: str
) -> None:
    if not hasattr(torch, dtype):
        pytest.skip(f"this PyTorch has no {dtype}")
    tensor = tensor_of(dtype, torch)
    assert_same_tensor(there_and_back(tensor), tensor, torch)


@pytest.mark.parametrize("layout", TORCH_LAYOUTS)
def test_a_tensor_of_any_layout_keeps_its_elements(
    there_and_back: Through, torch: ModuleType, layout: str
) -> None:
    tensor = TORCH_LAYOUTS[layout](tensor_of("float32", torch))
    assert_same_tensor(there_and_back(tensor), tensor, torch)


@pytest.mark.parametrize("layout", TORCH_LAYOUTS)
def test_a_tensor_of_any_layout_keeps_its_strides(
    there_and_back: Through, torch: ModuleType, layout: str
) -> None:
    tensor = TORCH_LAYOUTS[layout](tensor_of("float32", torch))
    assert there_and_back(tensor).stride() == tensor.stride()


def test_torch_tensors_that_overlap_share_a_storage(
    there_and_back: Through, torch: ModuleType
) -> None:
    base = torch.arange(24.0)
    message = {
        "apart": torch.arange(24.0),
        "grid": base.view(4, 6).t(),
        "part": base[5:20:3],
        "bits": base.view(torch.int32)[3:],
        "weight": torch.nn.Parameter(base[2:4]),
    }
    back = there_and_back(message)
    (storage,) = {back[name].untyped_storage().data_ptr() for name in back if name != "apart"}
    assert back["apart"].untyped_storage().data_ptr() != storage
    for name, tensor in message.items():
        assert_same_tensor(back[name], tensor, torch)
        assert back[name].storage_offset() == tensor.storage_offset()
        assert back[name].stride() == tensor.stride()


def test_arrays_that_overlap_do_so_when_they_arrive(there_and_back: Through) -> None:
    base = np.arange(24.0)
    back = there_and_back([base[::-1], base[3:8], base.view("V8")[20:], np.arange(24.0)])
    addresses = [array.__array_interface__["data"][0] for array in back]
    assert [address - addresses[0] for address in addresses[:3]] == [0, (3 - 23) * 8, (20 - 23) * 8]
    assert not np.shares_memory(back[0], back[3])


def test_requires_grad_travels(there_and_back: Through, torch: ModuleType) -> None:
    back = there_and_back(torch.ones(3, requires_grad=True))
    assert back.requires_grad
    assert back.is_leaf
    assert not there_and_back(torch.ones(3)).requires_grad


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_parameter_stays_a_parameter(
    there_and_back: Through, torch: ModuleType, requires_grad: bool
) -> None:
    parameter = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3), requires_grad=requires_grad)
    assert_same_tensor(there_and_back(parameter), parameter, torch)


def test_a_conjugate_view_keeps_its_values(there_and_back: Through, torch: ModuleType) -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert torch.equal(there_and_back(tensor), tensor)
    assert torch.equal(there_and_back(tensor.imag), tensor.imag)  # a negative view


def test_a_subscriber_may_ask_for_the_other_library(torch: ModuleType) -> None:
    with joined(subscriber={"library": "torch"}) as (publisher, subscriber):
        publisher.publish(np.arange(3))
        assert torch.equal(subscriber.receive().data, torch.arange(3))
    with joined(subscriber={"library": "numpy"}) as (publisher, subscriber):
        publisher.publish({"t": torch.arange(3)})
        assert_same_array(subscriber.receive().data["t"], np.arange(3))


def test_bfloat16_without_ml_dtypes_says_what_to_do(
    torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with joined(subscriber={"library": "numpy"}) as (publisher, subscriber):
        publisher.publish(torch.zeros(3, dtype=torch.bfloat16))
        sample = subscriber.receive()
        with pytest.raises(tb.Unsupported, match=r'pip install ml_dtypes.*library="torch"'):
            _ = sample.data
