"""A user's program, for a type checker: tests/python/api/test_types.py has mypy read it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorbus as tb
from tensorbus.cortex.messages import IntMessage, standard


def publish() -> int:
    with tb.Publisher("topic", reliable=True, shared=True, depth=4, timeout=1) as publisher:
        frame = publisher.loan((2, 3), dtype=np.float32)
        frame[:] = 0
        publisher.wait_for_subscribers(timeout=1)
        sent: int = publisher.publish({"frame": frame, "boxes": [np.zeros(4)], "id": 7})
        stats: tb.PublisherStats = publisher.stats
        print(stats.sent, stats["sent"], publisher.topic)
        return sent


@dataclass
class Detection(tb.Message, name="robot.Detection"):
    label: str
    boxes: list[np.ndarray[Any, Any]]


def messages() -> tuple[str, int]:
    with tb.Publisher("detections", Detection) as publisher:
        publisher.publish(Detection("cup", [np.zeros(4)]))
    with tb.Subscriber("detections", message_type=Detection) as subscriber:
        found: Detection = subscriber.receive(timeout=1).data
    again, header = Detection.from_bytes(found.to_bytes())
    known: type[tb.Message] | None = tb.MessageType.get(header.fingerprint)
    print(known, tb.ImageMessage(np.zeros((2, 3))).width, Detection.definition())
    found.validate()
    return again.label, header.timestamp_ns


def messages_of_cortex() -> tuple[int, str]:
    return IntMessage(7).data, standard.StringMessage("text").data


def map_files() -> None:
    counts = tb.map_file("counts.npy", (2, 3), np.int64, "w+")
    tb.flush(counts)
    with tb.MappedFile("model.safetensors", mode="c", library="numpy") as file:
        names: list[str] = file.names
        print(file.data, file.tensor(names[0]), file.metadata["format"], file.path)
        file.check()


def record() -> None:
    with tb.Recorder("run.mcap", ["a", "b"], reliable=True, buffer=1 << 30) as recorder:
        stats: tb.RecorderStats = recorder.stats
        print(recorder.wait(1.0), stats.lost, stats.error)
    with tb.Recording("run.mcap", library="numpy") as recording:
        topic: tb.RecordedTopic = recording.topics["a"]
        print(topic.rate, recording[0].header.sequence, recording.time_ns(-1), recording.damage)
        some: tb.RecordedSamples[tb.PoseMessage] = recording.select(
            "a", message_type=tb.PoseMessage, start_ns=recording.start_ns
        )
        poses: list[tb.PoseMessage] = [sample.data for sample in some[1:]]
        print(poses, [sample.data for sample in recording])
        windows: tb.RecordingDataset = recording.dataset("a", window=2, step=1)
        print(len(windows), windows[0])
        first: tb.RecordedSample[tb.PoseMessage] = some[0]
        print(first.time_ns, first.copy().time_ns, first.data.position)


def watch() -> None:
    with tb.VideoFrames("image.mp4") as frames:
        frame: tb.VideoFrame = frames.at(frames.time_ns(0))
        print(len(frames), frame.time_ns, frame.image.shape, frames[1:], frames.index_at(7))


def play() -> None:
    with tb.Player("run.mcap", "a", rate=2.0, remap={"a": "b"}, clock="clock") as player:
        player.pause()
        player.step(2)
        player.rate = 0.5
        player.resume()
        stats: tb.PlayerStats = player.stats
        print(player.wait_for_subscribers(1.0), player.wait(1.0), stats.left, player.path)


def receive() -> list[Any]:
    found: list[Any] = []
    with tb.Subscriber("topic", access="private", library="torch", max_held=4) as subscriber:
        for sample in subscriber:
            header: tb.Header = sample.header
            origin: tb.Origin | None = header.origin
            found.append((header.sequence, origin, sample.data, sample.copy().data))
        stats: tb.SubscriberStats = subscriber.stats
        print(stats.missed, stats.last_refusal)
        maybe: tb.Sample | None = subscriber.try_receive()
        ready: list[tb.Subscriber] = tb.wait_any([subscriber], timeout=1)
        print(maybe, ready, subscriber.fileno(), np.from_dlpack(subscriber.receive(timeout=1)))
    return found


def stay_alive() -> int:
    def on_lost(lost: tb.PublisherLost) -> None:
        print(lost.topic, lost.publisher, lost.pid, lost.closed)

    def on_missed(missed: tb.DeadlineMissed) -> None:
        print(missed.topic, missed.missed, missed.silence)

    with tb.Subscriber(
        "topic", expect_every=0.1, on_deadline_missed=on_missed, on_publisher_lost=on_lost
    ) as subscriber:
        return subscriber.deadlines_missed


def receive_pairs() -> None:
    both = [tb.Subscriber("left"), tb.Subscriber("right", tb.ImageMessage)]
    with tb.TimeSynchronizer(both, tolerance=0.01, queue_size=4, time="stamp") as pairs:
        for left, right in pairs:
            print(left.header.topic, right.data)
        maybe: tuple[tb.Sample, ...] | None = pairs.try_receive()
        stats: tb.TimeSynchronizerStats = pairs.stats
        print(maybe, pairs.receive(timeout=1), stats.sets, stats.dropped, pairs.topics)
    tb.TimeSynchronizer(both, tolerance=0, time=lambda sample: sample.header.timestamp_ns).close()


async def receive_async() -> None:
    async with tb.AsyncSubscriber("topic", timeout=1.0) as subscriber:
        sample: tb.Sample = await subscriber.receive()
        print(sample.data)
        async for sample in subscriber:
            print(sample.header.topic)
    async with tb.AsyncPublisher("topic", Detection, reliable=True, lag_timeout=1.0) as publisher:
        reached: int = await publisher.publish(Detection("cup", []), timeout=1)
        print(reached, await publisher.wait_for_subscribers(2, timeout=1))


class Detector(tb.Node):
    def __init__(self) -> None:
        super().__init__("detector", on_error="raise", parameters={"rate": 10.0})
        self.found = self.create_publisher("found", Detection, depth=4)
        self.images = self.create_subscriber("image", callback=self.on_image, library="numpy")
        self.create_subscriber("image", None, print, mode="sync", cpu_affinity=[0])
        self.timer = self.create_timer(0.1, self.tick, skip=True)
        self.create_service("detect", Detection, Detection, self.on_request, concurrency=2)
        self.client: tb.Client = self.create_client("detect", Detection, timeout=1)

    async def on_image(self, image: Any, header: tb.Header) -> None:
        self.found.publish(Detection(str(header.sequence), [image]))
        await self.client.call_async(Detection("cup", []), timeout=2)

    def tick(self) -> None:
        print(self.timer.overruns, self.images.dropped_count, self.parameters["rate"].source)

    def on_request(self, request: Detection) -> Detection:
        return request


async def nodes() -> None:
    async with Detector() as detector, tb.Node("other") as other:
        await asyncio.gather(detector.run(), other.run())
    with tb.Node("threads") as threads:
        stopped: bool = threads.spin(timeout=1)
        print(stopped, threads.stop_event.is_set(), threads.publishers)
    await tb.RateExecutor(50, print).run()


def pipeline() -> None:
    pipeline = tb.Pipeline.load("pipeline.toml", domain="test")
    pipeline.start(log_dir="logs", quiet=True)
    pipeline.wait_until_healthy(timeout=10)
    processes: list[tb.ProcessStatus] = pipeline.status()
    for process in processes:
        print(process.process, process.state, process.pid, process.reason, process.unmet)
    pipeline.restart("camera")
    pipeline.stop("camera")
    status: int = pipeline.wait(timeout=1)
    pipeline.kill()
    with tb.Pipeline.load("pipeline.toml") as other:
        print(status, other.name, other.run())


def errors() -> None:
    try:
        receive()
    except (tb.Timeout, tb.ShutDown, tb.Closed, tb.HoldLimit) as error:
        print(error)
    except tb.Error:
        raise


if __name__ == "__main__":
    publish()
    asyncio.run(receive_async())
    tb.run(nodes())
    print(tb.participant().arena["used_bytes"], tb.__version__)
