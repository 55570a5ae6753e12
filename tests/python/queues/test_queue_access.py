"""The access to the tensors that a queue gives, and their library."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.access import is_borrowed, is_shared
from support.harness import PATIENCE, Elsewhere, hear, in_a_fork, tell

COUNT = 5000  # of float64: several pages


async def _got_async(queue: tb.Queue[Any]) -> Any:
    return await queue.get_async()


GETS: dict[str, Callable[[tb.Queue[Any]], Any]] = {
    "get": lambda queue: queue.get(timeout=PATIENCE),
    "get_many": lambda queue: queue.get_many(1, timeout=PATIENCE)[0],
    "iteration": lambda queue: next(iter(queue)),
    "get_async": lambda queue: asyncio.run(_got_async(queue)),
}


@pytest.mark.parametrize("get", GETS.values(), ids=GETS)
def test_an_array_is_written_to_by_its_getter_alone(get: Callable[[tb.Queue[Any]], Any]) -> None:
    with tb.Queue() as queue:
        sent = tb.empty(COUNT, "float64")
        sent[:] = 1
        queue.put({"data": sent})
        got = get(queue)["data"]
        assert is_borrowed(got)
        got //= 2
        assert not got.any()
        assert (sent == 1).all()


@pytest.mark.parametrize("get", GETS.values(), ids=GETS)
@pytest.mark.parametrize("opens", [False, True], ids=["made", "opened"])
def test_access_read_makes_arrays_read_only(
    get: Callable[[tb.Queue[Any]], Any], opens: bool
) -> None:
    with tb.Queue(name="jobs", access=None if opens else "read") as made:
        queue = tb.Queue.open("jobs", access="read", timeout=PATIENCE) if opens else made
        made.put([np.ones(COUNT)])
        (got,) = get(queue)
        with pytest.raises(ValueError, match="read-only"):
            got += 1


@pytest.mark.parametrize("get", GETS.values(), ids=GETS)
@pytest.mark.parametrize("opens", [False, True], ids=["made", "opened"])
def test_the_library_is_that_of_the_getter(
    torch: ModuleType, get: Callable[[tb.Queue[Any]], Any], opens: bool
) -> None:
    with tb.Queue(name="jobs", library=None if opens else "torch") as made:
        queue = tb.Queue.open("jobs", library="torch", timeout=PATIENCE) if opens else made
        made.put({"data": np.ones(COUNT), "name": "ones"})
        got = get(queue)
        assert isinstance(got["data"], torch.Tensor)
        assert (got["name"], int(got["data"].sum())) == ("ones", COUNT)
        made.put(torch.arange(3))
        assert isinstance(made.get(), torch.Tensor)


def test_items_behind_plain_ones_have_the_library_too(torch: ModuleType) -> None:
    with tb.Queue(library="torch") as queue:
        queue.put(1)
        queue.put(np.ones(COUNT))
        queue.put({"data": np.zeros(COUNT)})
        number, ones, item = queue.get_many(3)
        assert number == 1
        assert isinstance(ones, torch.Tensor)
        assert isinstance(item["data"], torch.Tensor)


def test_open_async_takes_both(torch: ModuleType) -> None:
    async def got() -> Any:
        queue: tb.Queue[Any] = await tb.Queue.open_async(
            "jobs", access="read", library="numpy", timeout=PATIENCE
        )
        return await queue.get_async()

    with tb.Queue(name="jobs") as queue:
        queue.put(torch.ones(COUNT))
        array = asyncio.run(got())
        assert isinstance(array, np.ndarray)
        assert not array.flags.writeable


def test_a_child_that_gets_the_queue_keeps_both(elsewhere: Elsewhere, torch: ModuleType) -> None:
    def get(pickled: bytes) -> None:
        got = pickle.loads(pickled).get(timeout=PATIENCE)
        tell((type(got).__name__, bool(got.flags.writeable)))
        hear()

    with tb.Queue(access="read", library="numpy") as queue:
        queue.put(torch.ones(COUNT))
        other = elsewhere.start(get, pickle.dumps(queue))
        assert other.hear() == ("ndarray", False)
        other.tell()

        def get_in_the_child() -> None:
            got = queue.get(timeout=PATIENCE)
            assert isinstance(got, np.ndarray)
            assert not got.flags.writeable

        queue.put(torch.ones(COUNT))
        in_a_fork(get_in_the_child)


def test_a_shared_queue_shows_writes_to_all(elsewhere: Elsewhere) -> None:
    def write(name: str) -> None:
        queue: tb.Queue[Any] = tb.Queue.open(name, access="shared", timeout=PATIENCE)
        got = queue.get(timeout=PATIENCE)
        got[:] = 7
        tell(is_shared(got))

    with tb.Queue(name="jobs", shared=True, access="shared") as queue:
        sent = tb.empty(COUNT, "float64", shared=True)
        sent[:] = 1
        other = elsewhere.start(write, "jobs")
        queue.put(sent)
        assert other.hear() is True
        assert (sent == 7).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"access": "write"}, "access='write': expected one of"),
        ({"library": "cupy"}, "library='cupy': expected one of"),
        ({"access": "shared"}, "without shared=True"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tb.InvalidArgument, match=message):
        tb.Queue(name="jobs", **options)
    with tb.Queue(name="jobs") as queue:
        with pytest.raises(tb.InvalidArgument, match=message):
            tb.Queue.open("jobs", timeout=PATIENCE, **options)
        with pytest.raises(tb.InvalidArgument, match=message):
            asyncio.run(tb.Queue.open_async("jobs", timeout=PATIENCE, **options))
        queue.put(1)
        assert queue.get() == 1


@pytest.mark.parametrize("access", ["copy-on-write", "read", "private"])
def test_a_shared_queue_has_one_access(access: Any) -> None:
    with pytest.raises(tb.InvalidArgument, match='"shared"'):
        tb.Queue(shared=True, access=access)
    with tb.Queue(name="jobs", shared=True), pytest.raises(tb.InvalidArgument, match='"shared"'):
        tb.Queue.open("jobs", access=access, timeout=PATIENCE)


def test_a_wrong_argument_does_not_wait_for_the_queue() -> None:
    with pytest.raises(tb.InvalidArgument, match="library"):
        tb.Queue.open("nobody/makes/it", library="cupy")  # type: ignore[arg-type]
