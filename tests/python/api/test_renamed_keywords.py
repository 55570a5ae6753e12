"""Keywords that had other names before: the old ones work, with a warning."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus.cortex import Subscriber as CortexSubscriber

CALLABLES: list[tuple[Callable[..., Any], str, str]] = [
    (tb.Subscriber.__init__, "as_", "library"),
    (tb.AsyncSubscriber.__init__, "as_", "library"),
    (tb.attach, "as_", "library"),
    (tb.map_file, "as_", "library"),
    (tb.MappedFile.__init__, "as_", "library"),
    (tb.Client.__init__, "as_", "library"),
    (tb.Node.create_service, "as_", "library"),
    (tb.Subscriber.receive_many, "most", "max_count"),
    (tb.Subscriber.try_receive_many, "most", "max_count"),
    (tb.AsyncSubscriber.receive_many, "most", "max_count"),
    (tb.WorkerPool.imap, "ahead", "prefetch"),
    (tb.WorkerPool.imap_unordered, "ahead", "prefetch"),
]


@pytest.mark.parametrize(("function", "old", "new"), CALLABLES)
def test_signatures_have_the_new_names_alone(
    function: Callable[..., Any], old: str, new: str
) -> None:
    names = inspect.signature(function).parameters
    assert new in names
    assert old not in names


@pytest.mark.parametrize(("function", "old", "new"), CALLABLES)
def test_both_names_at_once_are_refused(function: Callable[..., Any], old: str, new: str) -> None:
    with pytest.raises(TypeError, match=f"'{new}' and '{old}', its old name"):
        function(None, **{old: None, new: None})


def published(topic: str, *messages: Any) -> tb.Publisher:
    publisher = tb.Publisher(topic, history=len(messages))
    for message in messages:
        publisher.publish(message)
    return publisher


def test_a_library_is_asked_for_by_either_name(torch: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    with published("t", np.arange(3)), tb.share(np.arange(3)) as shared:
        for call in (
            lambda **named: tb.Subscriber("t", timeout=PATIENCE, **named).receive().data,
            lambda **named: tb.attach(shared.handle, **named),
            lambda **named: tb.map_file(tmp_path / "a.npy", **named),
            lambda **named: tb.MappedFile(tmp_path / "a.npy", **named).data,
        ):
            assert type(call(library="torch")) is torch.Tensor
            with pytest.warns(DeprecationWarning, match="use library=") as told:
                assert type(call(as_="torch")) is torch.Tensor
            assert [each.filename for each in told] == [__file__]


def test_nodes_hand_the_new_name_on(torch: Any) -> None:
    node = tb.Node("n")
    with published("t", np.arange(3)):
        for call in (
            lambda **named: node.create_client("s", **named),
            lambda **named: node.create_service("s", callback=len, **named),
            lambda **named: CortexSubscriber("t", tb.IntMessage, **named).close(),
            lambda **named: node.create_subscriber("t", **named),
        ):
            with pytest.warns(DeprecationWarning, match="use library=") as told:
                made = call(as_="torch")
            assert [each.filename for each in told] == [__file__]
        assert type(asyncio.run(made.receive(PATIENCE)).data) is torch.Tensor
    asyncio.run(node.close())


def test_as_many_are_received_by_either_name() -> None:
    with published("t", 1, 2, 3, 4), tb.Subscriber("t", timeout=PATIENCE) as subscriber:
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        assert [sample.data for sample in subscriber.receive_many(1)] == [1]
        assert [sample.data for sample in subscriber.receive_many(max_count=1)] == [2]
        with pytest.warns(DeprecationWarning, match=r"receive_many\(most=.*use max_count="):
            assert [sample.data for sample in subscriber.receive_many(most=1)] == [3]  # type: ignore[call-arg]
        with pytest.warns(DeprecationWarning, match="use max_count="):
            assert [sample.data for sample in subscriber.try_receive_many(most=9)] == [4]  # type: ignore[call-arg]
        with pytest.raises(tb.InvalidArgument, match="max_count=0"):
            subscriber.receive_many(0)


def test_a_pool_takes_items_by_either_name() -> None:
    with tb.WorkerPool(len, workers=1) as pool:
        assert list(pool.imap(["a", "bc"], prefetch=1)) == [1, 2]
        with pytest.warns(DeprecationWarning, match="use prefetch="):
            assert list(pool.imap(["a", "bc"], ahead=1)) == [1, 2]  # type: ignore[call-arg]
        with pytest.raises(tb.InvalidArgument, match="prefetch=0"):
            list(pool.imap([], prefetch=0))
