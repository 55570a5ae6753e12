"""A received sample is sent as it is: it stands for its data, whatever carries it."""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, joined, tell, used_bytes

SIZE = 1 << 20  # elements: far above the sizes that are copied


@dataclass
class Frame(tb.Message, name="robot.Frame"):
    image: np.ndarray
    frame_id: str = "map"


@dataclass
class Scene(tb.Message, name="robot.Scene"):
    left: np.ndarray
    frames: list[Frame] = field(default_factory=list)
    by_name: dict[str, np.ndarray] = field(default_factory=dict)
    best: Frame | None = None
    more: Any = None


@contextmanager
def samples_of(*messages: Any, **options: Any) -> Iterator[list[tb.Sample[Any]]]:
    """These messages, received in this process."""
    with joined("source", publisher=options, subscriber=options) as (publisher, subscriber):
        received = []
        for message in messages:
            publisher.publish(message)
            received.append(subscriber.receive())
        yield received


def test_a_sample_is_published_as_its_data() -> None:
    messages = [
        {"image": np.arange(3), "id": 7},
        [1, "two", None],
        "text",
        None,
        (np.float32(1.5), {"a"}),
        tb.PoseMessage(np.zeros(3), np.zeros(4), "map"),
    ]
    with joined() as (publisher, subscriber), samples_of(*messages) as samples:
        for sample in samples:
            publisher.publish(sample)
            received = subscriber.receive().data
            assert type(received) is type(sample.data)
            assert repr(received) == repr(sample.data)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_lone_tensor_keeps_its_library_and_is_not_copied(library: str) -> None:
    sent: Any = torch.arange(SIZE) if library == "torch" else np.arange(SIZE)
    with joined() as (publisher, subscriber), samples_of(sent) as (sample,):
        for message in (sample, {"image": sample}, [sample, (sample,)]):
            publisher.publish(message)
            received = subscriber.receive()
            assert received._core.tensor_count == 1
        publisher.publish(sample)
        again = subscriber.receive().data
        assert type(again) is type(sent)
        assert (again == sent).all()
        assert publisher.stats.bytes_copied == 0


def test_it_stands_for_its_data_anywhere_in_a_message() -> None:
    with (
        joined() as (publisher, subscriber),
        samples_of({"id": 1}, "key", np.arange(SIZE)) as (message, key, image),
    ):
        publisher.publish(
            {
                "first": message,
                "all": [message, (image, {"deep": message})],
                key: OrderedDict(a=message),
                "set": {key, 1},
            }
        )
        found = subscriber.receive().data
        assert found["first"] == {"id": 1}
        assert found["all"][0] == {"id": 1}
        assert found["all"][1][1] == {"deep": {"id": 1}}
        assert found["all"][1][0][-1] == SIZE - 1
        assert found["key"] == OrderedDict(a={"id": 1})
        assert found["set"] == {"key", 1}
        assert publisher.stats.bytes_copied == 0


def test_what_a_program_holds_is_left_as_it_is() -> None:
    with joined() as (publisher, subscriber), samples_of({"id": 1}) as (sample,):
        state = OrderedDict(a=sample)
        state._metadata = {"version": 1}  # type: ignore[attr-defined]
        sent = {"all": [sample], "state": state}
        publisher.publish(sent)
        found = subscriber.receive().data
        assert found == {"all": [{"id": 1}], "state": {"a": {"id": 1}}}
        assert found["state"]._metadata == {"version": 1}
        assert sent["all"][0] is sample  # type: ignore[index]
        assert state["a"] is sample


def test_a_written_sample_is_sent_as_it_was_written() -> None:
    with joined() as (publisher, subscriber), samples_of(np.zeros(SIZE)) as (sample,):
        sample.data[0] = 5
        publisher.publish({"image": sample})
        assert subscriber.receive().data["image"][0] == 5


def test_a_typed_topic_takes_a_sample_of_its_type_only() -> None:
    typed = {"message_type": Frame}
    with joined(publisher=typed, subscriber=typed) as (publisher, subscriber):
        with samples_of(Frame(np.arange(SIZE), "base"), **typed) as (sample,):
            publisher.publish(sample)
            assert subscriber.receive().data.frame_id == "base"
            assert publisher.stats.bytes_copied == 0
        with (
            samples_of({"image": np.arange(3)}) as (sample,),
            pytest.raises(tb.MessageError, match=r"expected robot\.Frame, got dict"),
        ):
            publisher.publish(sample)
        assert publisher.stats.sent == 1


def test_the_fields_of_a_typed_message_take_samples() -> None:
    typed = {"message_type": Scene}
    image = np.arange(SIZE)
    with (
        samples_of(image, {"id": 1}) as (lone, plain),
        joined(publisher=typed, subscriber=typed) as (publisher, subscriber),
        samples_of(Frame(image, "base"), message_type=Frame) as (frame,),
    ):
        scene = Scene(lone, [frame, frame], {"up": lone}, frame, [plain])  # type: ignore[arg-type, list-item, dict-item]
        publisher.publish(scene)
        found = subscriber.receive().data
        assert found.left[-1] == found.by_name["up"][-1] == SIZE - 1
        assert [each.frame_id for each in found.frames] == ["base", "base"]
        assert (found.best.frame_id, found.more) == ("base", [{"id": 1}])
        assert publisher.stats.bytes_copied == 0
        assert Scene.from_bytes(scene.to_bytes())[0].more == [{"id": 1}]
        assert scene.left is lone  # type: ignore[comparison-overlap]
        with pytest.raises(tb.MessageError, match=r"Scene\.left: expected array, got dict"):
            publisher.publish(Scene(plain))  # type: ignore[arg-type]
        publisher_of_all = tb.Publisher[Any]("all", history=1)
        publisher_of_all.publish({"scene": scene, "plain": plain})
        with tb.Subscriber[Any]("all", timeout=PATIENCE) as other:
            assert other.receive().data["scene"].more == [{"id": 1}]


def test_what_cannot_be_sent_is_refused_and_its_place_is_named() -> None:
    with joined() as (publisher, subscriber), samples_of({"id": 1}) as (sample,):
        with pytest.raises(tb.Unsupported, match=r"data\['b'\]\[0\]: .*object"):
            publisher.publish({"a": sample, "b": [object()]})
        with pytest.raises(tb.Unsupported, match="a sample in a set or a key"):
            publisher.publish({"a": {sample}})
        inside_itself: list[Any] = [sample]
        inside_itself += [inside_itself, inside_itself]
        with pytest.raises(tb.Unsupported, match="a container inside itself"):
            publisher.publish(inside_itself)
        publisher.publish(sample)
        assert subscriber.receive().data == {"id": 1}


def test_a_sample_that_cannot_be_read_raises_its_own_error() -> None:
    with joined("source") as (source, subscriber), joined() as (publisher, _):
        source._core.publish(tb._core.Outgoing(), b"\xc1", None)
        sample = subscriber.receive()
        for message in (sample, {"a": sample}):
            with pytest.raises(tb.ProtocolError), tb.Queue[Any]() as queue:
                queue.put(message)
            with pytest.raises(tb.ProtocolError):
                publisher.publish(message)
            with pytest.raises(tb.ProtocolError):
                tb.share(message)
        assert publisher.stats.sent == 0


@pytest.mark.parametrize("shared", [False, True])
def test_a_queue_takes_samples_and_lists_of_them(shared: bool) -> None:
    with tb.Queue[Any](shared=shared) as queue:
        with joined("source") as (publisher, subscriber):
            for number in range(3):
                publisher.publish(np.full(SIZE, number))
            received = subscriber.receive_many(3)
            queue.put(received)
            queue.put_many(received)
            publisher.publish({"id": 4})
            queue.put((subscriber.receive(), "beside"))
        assert [int(image[-1]) for image in queue.get()] == [0, 1, 2]
        assert [int(image[-1]) for image in queue.get_many(3)] == [0, 1, 2]
        assert queue.get() == ({"id": 4}, "beside")


def test_what_a_queue_sends_on_is_not_copied() -> None:
    with samples_of(np.arange(SIZE), {"image": torch.arange(SIZE)}) as samples:
        before = used_bytes()
        with tb.Queue[Any]() as queue:
            queue.put(samples)
            queue.put(samples[0])
            assert used_bytes() - before < SIZE
            lone, message = queue.get()
            assert (lone[-1], message["image"][-1]) == (SIZE - 1, SIZE - 1)
            assert queue.get()[-1] == SIZE - 1


def test_other_pickles_still_refuse_a_sample() -> None:
    with samples_of(np.arange(3)) as (sample,), pytest.raises(TypeError, match="send its data"):
        pickle.dumps(sample)


def total(item: Any) -> int:
    return int(item["image"].sum())


def summed(request: dict[str, Any]) -> Any:
    return [request["image"], int(request["image"].sum())]


def test_shares_pools_and_services_take_a_sample() -> None:
    with samples_of({"image": np.arange(4)}) as (sample,):
        with tb.share(sample) as one, tb.share([sample]) as other:
            assert tb.attach(one.handle)["image"].tolist() == [0, 1, 2, 3]
            assert tb.attach(other.handle)[0]["image"].tolist() == [0, 1, 2, 3]
        with tb.WorkerPool(total, workers=1) as pool:
            assert pool.submit(sample).result() == 6
            assert list(pool.map([sample, sample])) == [6, 6]
        with tb.Node("adder") as node:
            node.create_service("sum", callback=summed, mode="sync")
            node.create_service("same", callback=lambda _: sample, mode="sync")
            thread = threading.Thread(target=node.spin)
            thread.start()
            with tb.Client[Any, Any]("sum", timeout=PATIENCE) as client:
                assert client.call_sync(sample)[1] == 6
            with tb.Client[Any, Any]("same", timeout=PATIENCE) as client:
                assert client.call_sync(None)["image"].tolist() == [0, 1, 2, 3]
            node.stop()
            thread.join()


def test_typed_services_take_a_sample() -> None:
    typed: Any = {"request_type": Frame, "reply_type": Frame}
    with samples_of(Frame(np.arange(4)), message_type=Frame) as (sample,), tb.Node("echo") as node:
        node.create_service("echo", callback=lambda _: sample, mode="sync", **typed)
        thread = threading.Thread(target=node.spin)
        thread.start()
        with tb.Client[Any, Any]("echo", timeout=PATIENCE, **typed) as client:
            assert client.call_sync(sample).image.tolist() == [0, 1, 2, 3]
        node.stop()
        thread.join()


def test_samples_of_a_recording_are_sent_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher[Any]("camera", reliable=True) as publisher,
        tb.Recorder(path, "camera", reliable=True),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.arange(SIZE))
        publisher.publish({"image": np.arange(SIZE), "id": 7})
    before = used_bytes()
    with tb.Recording(path) as recording:
        recorded = [*recording]
    with joined() as (publisher, subscriber), tb.Queue[Any]() as queue:
        for sample in recorded:
            publisher.publish(sample)
        queue.put(recorded)
        assert publisher.stats.bytes_copied == 0
        assert used_bytes() - before < SIZE
        assert subscriber.receive().data[-1] == SIZE - 1
        assert subscriber.receive().data["image"][-1] == SIZE - 1
        lone, message = queue.get()
        assert (lone[-1], message["id"]) == (SIZE - 1, 7)


def relay() -> None:
    """Publishes each sample of one topic on another, as it is."""
    with tb.Publisher[Any]("onward") as publisher, tb.Subscriber[Any]("source") as subscriber:
        tell("ready")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(2):
            publisher.publish(subscriber.receive(timeout=PATIENCE))
        tell(publisher.stats.bytes_copied)
        hear()


def test_a_relay_passes_samples_on_without_a_copy_and_may_die(elsewhere: Elsewhere) -> None:
    between = elsewhere.start(relay)
    assert between.hear() == "ready"
    with (
        tb.Publisher[Any]("source") as publisher,
        tb.Subscriber[Any]("onward", timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        publisher.publish({"image": np.full(SIZE, 1), "id": 1})
        publisher.publish(np.full(SIZE, 2))
        samples = [subscriber.receive(), subscriber.receive()]
        assert between.hear() == 0
        between.kill()
        assert samples[0].data["image"][-1] == 1
        assert samples[1].data[-1] == 2
        samples.clear()
    eventually(lambda: used_bytes() == 0)
