"""A handle in a message: it arrives as a handle, whatever carries the message."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, joined, tell
from tensorbus._core import Outgoing
from tensorbus._recording.message_parts import MessageParts


@dataclass
class Policy(tb.Message, name="robot.Policy"):
    weights: tb.Handle
    older: list[tb.Handle] = field(default_factory=list)
    best: tb.Handle | None = None


def test_another_process_attaches_to_what_is_published(elsewhere: Elsewhere) -> None:
    def attach() -> None:
        with tb.Subscriber("policy", timeout=PATIENCE) as subscriber:
            weights = subscriber.receive().data["weights"]
            tell((type(weights).__name__, tb.attach(weights).tolist()))
            hear()

    with tb.Publisher("policy", history=1) as publisher, tb.share(np.arange(3)) as shared:
        publisher.publish({"weights": shared.handle})
        actor = elsewhere.start(attach)
        assert actor.hear() == ("Handle", [0, 1, 2])
        actor.tell()


def test_it_may_be_wherever_a_value_may_be() -> None:
    with tb.share(np.arange(3)) as shared, joined() as (publisher, subscriber):
        handle = shared.handle
        for message in (handle, [handle], (handle, 1), {"a": {"b": handle}}, {handle}, {handle: 1}):
            publisher.publish(message)
            assert subscriber.receive().data == message


def test_a_typed_field_takes_a_handle_and_nothing_else() -> None:
    typed = {"message_type": Policy}
    with tb.share(1) as one, tb.share(2) as other:
        sent = Policy(one.handle, [other.handle, one.handle], other.handle)
        with joined(publisher=typed, subscriber=typed) as (publisher, subscriber):
            publisher.publish(sent)
            assert subscriber.receive().data == sent
            with pytest.raises(tb.MessageError, match="weights: expected handle, got str"):
                publisher.publish(Policy(str(one.handle)))
        assert Policy.from_bytes(sent.to_bytes())[0] == sent
    lines = ["best: handle|none = ...", "older: list<handle> = ...", "weights: handle"]
    assert Policy.definition().splitlines()[1:] == lines


@dataclass
class Weights(tb.Message, name="robot.Weights"):
    by_name: dict[str, tb.Handle]
    names: dict[tb.Handle, str]
    known: set[tb.Handle]
    layers: tuple[tb.Handle, ...]
    either: tb.Handle | str
    policy: Policy
    rest: Any = None


def weights(one: tb.Handle, other: tb.Handle) -> Weights:
    return Weights(
        {"actor": one, "critic": other},
        {one: "actor"},
        {one, other},
        (one, other),
        "not yet",
        Policy(one, [other]),
        [{"deep": one}],
    )


def test_a_type_may_have_it_wherever_it_may_have_another_value(tmp_path: Path) -> None:
    typed = {"message_type": Weights}
    path = tmp_path / "run.mcap"
    with (
        tb.share(1) as one,
        tb.share(2) as other,
        joined(publisher={**typed, "reliable": True}, subscriber=typed) as (publisher, subscriber),
    ):
        sent = weights(one.handle, other.handle)
        with tb.Recorder(path, "topic", reliable=True):
            assert publisher.wait_for_subscribers(2, PATIENCE)
            publisher.publish(sent)
        received = subscriber.receive().data
        assert received == sent
        assert tb.attach(received.by_name["critic"]) == 2
        with pytest.raises(tb.MessageError, match=r"layers\[1\]: expected handle, got str"):
            publisher.publish(replace(sent, layers=(one.handle, str(other.handle))))
        assert Weights.from_bytes(sent.to_bytes())[0] == sent
        with tb.Queue[Any]() as queue:
            queue.put_many([sent, {"all": [sent]}])
            assert queue.get_many(2) == [sent, {"all": [sent]}]
        with tb.Recording(path) as recording:
            (recorded,) = recording.select("topic", message_type=Weights)
            assert recorded.data == sent


def test_a_typed_service_takes_and_returns_it() -> None:
    typed: Any = {"request_type": Weights, "reply_type": Policy}
    with tb.share(1) as one, tb.share(2) as other, tb.Node("trainer") as node:
        node.create_service("best", callback=lambda asked: asked.policy, mode="sync", **typed)
        thread = threading.Thread(target=node.spin)
        thread.start()
        with tb.Client[Any, Any]("best", timeout=PATIENCE, **typed) as client:
            sent = weights(one.handle, other.handle)
            assert client.call_sync(sent) == sent.policy
        node.stop()
        thread.join()


def test_json_has_its_text() -> None:
    with tb.share(1) as shared:
        text = str(shared.handle)
        assert MessageParts({"weights": shared.handle}).values == {"weights": text}
        assert tb.attach(text) == 1


def attached(request: dict[str, Any]) -> dict[str, Any]:
    return {**request, "sum": int(tb.attach(request["weights"]).sum())}


def test_queues_services_and_pools_carry_it() -> None:
    with tb.share(np.arange(3)) as shared:
        message = {"weights": shared.handle}
        answer = {**message, "sum": 3}
        with tb.Queue[Any]() as queue:
            queue.put(message)
            assert queue.get() == message
        with tb.WorkerPool(attached, workers=1) as pool:
            assert list(pool.map([message])) == [answer]
        with tb.Node("trainer") as node:
            node.create_service("weights", callback=attached, mode="sync")
            thread = threading.Thread(target=node.spin)
            thread.start()
            with tb.Client[Any, Any]("weights", timeout=PATIENCE) as client:
                assert client.call_sync(message) == answer
            node.stop()
            thread.join()


@pytest.mark.parametrize("text", ["tensorbus:?", 7, None])
def test_a_handle_that_its_sender_made_up_is_a_protocol_error(text: object) -> None:
    record = msgspec.msgpack.Ext(3, msgspec.msgpack.encode(["handle", text]))
    with joined() as (publisher, subscriber):
        publisher._core.publish(Outgoing(), msgspec.msgpack.encode(record), None)
        with pytest.raises(tb.ProtocolError, match="handle"):
            _ = subscriber.receive().data
