"""Messages for the viewers of others: what they are given, and what arrives there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, tell
from tensorbus._view.sinks import forwarding
from tensorbus._view.sinks.forwarding import Sink, forward
from tensorbus._view.sinks.parts import Parts, parts_of, quaternion

HEADER = tb.Header(0, 1_500_000_000, "topic", "", 0)
# By 90 degrees about z.
TURN = np.array([[0.0, -1, 0, 5], [1, 0, 0, 6], [0, 0, 1, 7], [0, 0, 0, 1]])
POINTS = np.arange(120, dtype=np.float32).reshape(40, 3)

STANDARD: dict[str, Any] = {
    "image": tb.ImageMessage(np.full((4, 5, 3), 7, np.uint8), encoding="bgr8"),
    "cloud": tb.PointCloudMessage(POINTS, colors=np.full((40, 3), 9, np.uint8), frame_id="map"),
    "pose": tb.PoseMessage(np.arange(3.0), np.array([0.0, 0, 0, 1]), "map", "robot"),
    "transform": tb.TransformMessage(TURN, "map", "arm"),
    "array": tb.ArrayMessage(np.ones((7, 8)), "joints"),
    "arrays": tb.MultiArrayMessage({"a": np.ones((3, 3)), "b": np.arange(2)}),
    "float": tb.FloatMessage(2.5),
    "int": tb.IntMessage(7),
    "string": tb.StringMessage("hello"),
    "bytes": tb.BytesMessage(b"raw"),
    "dict": tb.DictMessage({"speed": 1.5, "grid": np.ones((9, 9))}),
    "list": tb.ListMessage([1, "two"]),
    "stamp": tb.TimestampMessage(5, 6),
    "header": tb.HeaderMessage(5, 6, "map", 7),
}


def test_an_image_keeps_the_order_of_its_colours() -> None:
    image = parts_of(STANDARD["image"], HEADER).images[""]
    assert (image.pixels.shape, image.blue_first) == ((4, 5, 3), True)
    assert parts_of(STANDARD["image"], HEADER).texts == {}  # its encoding is in the image


@pytest.mark.parametrize(
    ("encoding", "channels", "expected"),
    [("bgr8", 3, [3, 2, 1]), ("bgra8", 4, [3, 2, 1, 9]), ("rgba8", 4, [1, 2, 3, 9])],
)
def test_foxglove_gets_red_first(encoding: str, channels: int, expected: list[int]) -> None:
    pytest.importorskip("foxglove")
    from tensorbus._view.sinks.to_foxglove import _image

    pixels = np.full((1, 1, channels), (1, 2, 3, 9)[:channels], np.uint8)
    found = parts_of(tb.ImageMessage(pixels, encoding=encoding), HEADER).images[""]
    assert _image(found, None).encode().endswith(bytes(expected))


def test_planes_and_floats_become_an_image() -> None:
    image = parts_of(np.full((3, 5, 6), 0.5, np.float32), HEADER).images[""]
    assert (image.pixels.shape, image.pixels.dtype, int(image.pixels.max())) == (
        (5, 6, 3),
        np.uint8,
        127,
    )


def test_a_cloud_has_its_colours_and_its_frame() -> None:
    points = parts_of(STANDARD["cloud"], HEADER).points[""]
    assert (points.positions == POINTS).all()
    assert (int(points.colours.min()), points.frame) == (9, "map")


def test_a_transform_is_a_pose() -> None:
    pose = parts_of(STANDARD["transform"], HEADER).poses[""]
    assert pose.position.tolist() == [5, 6, 7]
    assert pose.orientation == pytest.approx([0, 0, 0.5**0.5, 0.5**0.5])
    assert (pose.frame, pose.child) == ("map", "arm")


def test_the_type_of_the_publisher_says_what_a_dict_is() -> None:
    with tb.Publisher("topic", tb.PoseMessage, history=1) as sender:
        sender.publish(STANDARD["pose"])
        with tb.Subscriber("topic", library="numpy", timeout=PATIENCE) as receiver:
            sample = receiver.receive()
            assert isinstance(sample.data, dict)
            assert parts_of(sample.data, sample.header).poses[""].child == "robot"


def test_all_else_is_numbers_tensors_and_texts_by_name() -> None:
    found = parts_of(STANDARD["dict"], HEADER)
    assert found.numbers == {"data/speed": 1.5}
    assert set(found.tensors) == {"data/grid"}
    assert parts_of(STANDARD["string"], HEADER).texts == {"": "hello"}
    assert parts_of(STANDARD["arrays"], HEADER).numbers["arrays/b[1]"] == 1


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("angle", [0.0, 1.0, np.pi, -2.0])
def test_a_quaternion_turns_as_its_matrix(axis: int, angle: float) -> None:
    one, other = [index for index in range(3) if index != axis]
    rotation = np.eye(3)
    rotation[[one, other], [one, other]] = np.cos(angle)
    rotation[one, other], rotation[other, one] = -np.sin(angle), np.sin(angle)
    x, y, z, w = quaternion(rotation)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    again = np.eye(3) + 2 * w * cross + 2 * cross @ cross
    assert again == pytest.approx(rotation)


class Kept:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.parts: dict[str, Parts] = {}
        self.closed = False

    def send(self, topic: str, header: tb.Header, parts: Parts) -> None:
        if topic == "bad":
            raise ValueError("not for this viewer")
        self.parts[topic] = parts

    def close(self) -> None:
        self.closed = True


def forwarded(sink: Sink, until: Callable[[], Awaitable[object]]) -> None:
    """Publishes all standard messages and forwards them until something is so."""

    async def main() -> None:
        with contextlib.ExitStack() as stack:
            for topic, message in STANDARD.items():
                typed = stack.enter_context(tb.Publisher(f"{topic}", type(message), history=1))
                typed.publish(message)
            stack.enter_context(tb.Publisher("bad", history=1)).publish(1)
            task = asyncio.create_task(forward(None, sink))
            try:
                await asyncio.wait_for(until(), PATIENCE)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


async def all_in(kept: dict[str, Any]) -> None:
    while not set(STANDARD) <= set(kept):
        await asyncio.sleep(0.01)


def test_every_topic_is_forwarded_and_one_that_cannot_be_shown_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Kept()
    forwarded(sink, lambda: all_in(sink.parts))
    assert sink.closed
    assert "bad: a message cannot be shown: not for this viewer" in caplog.text


async def until(condition: Callable[[], object]) -> None:
    async def look() -> None:
        while not condition():
            await asyncio.sleep(0.002)

    await asyncio.wait_for(look(), PATIENCE)


def is_of_a_topic(task: asyncio.Task[Any]) -> bool:
    return "_forward_topic" in repr(task.get_coro())


class Failing:
    """A sink with a fault, once."""

    def __init__(self) -> None:
        self.sequences: list[int] = []

    def send(self, topic: str, header: tb.Header, parts: Parts) -> None:
        self.sequences.append(header.sequence)
        if len(self.sequences) == 1:
            raise KeyError("a fault of the sink")

    def close(self) -> None:
        pass


def test_an_error_of_the_sink_or_of_a_subscriber_does_not_end_a_topic(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([tb.AccessDenied("not yet")])
    subscriber = forwarding.AsyncSubscriber

    def failing(topic: str, **options: Any) -> Any:
        for failure in failures:
            raise failure
        return subscriber(topic, **options)

    monkeypatch.setattr(forwarding, "AsyncSubscriber", failing)
    monkeypatch.setattr(forwarding, "_PERIOD", 0.01)
    sink = Failing()

    async def main(sender: tb.Publisher) -> None:
        task = asyncio.create_task(forward(None, sink))
        await until(lambda: sink.sequences)
        sender.publish(2)
        await until(lambda: len(sink.sequences) == 2)
        sender.close()
        await until(lambda: not any(map(is_of_a_topic, asyncio.all_tasks())))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with tb.Publisher("topic", history=1) as sender:
        sender.publish(1)
        asyncio.run(main(sender))
    assert caplog.messages == [
        "topic: it cannot be received: not yet",
        "topic: a message cannot be shown: 'a fault of the sink'",
    ]


class Seen:
    """Another sink, and which topics it was sent."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.topics: dict[str, Parts] = {}

    def send(self, topic: str, header: tb.Header, parts: Parts) -> None:
        if topic != "bad":
            self._sink.send(topic, header, parts)
            self.topics[topic] = parts

    def close(self) -> None:
        self._sink.close()


def test_rerun_reads_all_standard_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    from tensorbus._view.sinks.to_rerun import RerunSink

    file = tmp_path / "all.rrd"
    seen = Seen(RerunSink(str(file)))
    forwarded(seen, lambda: all_in(seen.topics))
    assert caplog.messages == []
    rerun = Path(sysconfig.get_path("scripts")) / "rerun"
    printed = subprocess.check_output(
        [rerun, "rrd", "print", "-v", file],
        text=True,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
    )
    columns = set(re.findall(r"(/\S+@\w+):", printed))
    assert {
        "/image@Image",
        "/cloud@Points3D",
        "/pose@Transform3D",
        "/transform@Transform3D",
        "/array@Tensor",
        "/float@Scalars",
        "/int@Scalars",
        "/string@TextLog",
        "/dict/data/speed@Scalars",
        "/stamp/sec@Scalars",
    } <= columns


def test_foxglove_shows_all_standard_messages(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("foxglove", reason="foxglove-sdk is not installed")
    aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    from tensorbus._view.sinks.to_foxglove import FoxgloveSink

    sink = FoxgloveSink("", unused_port())
    seen = Seen(sink)
    offered: dict[str, str] = {}

    async def as_the_app() -> None:
        await all_in(seen.topics)
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(
                f"ws://127.0.0.1:{sink._out.port}", protocols=["foxglove.sdk.v1"]
            ) as socket,
        ):
            while len(offered) < len(STANDARD):
                message = await socket.receive()
                if message.type is aiohttp.WSMsgType.TEXT:
                    told = json.loads(message.data)
                    for channel in told.get("channels", ()):
                        offered[channel["topic"]] = channel["schemaName"]

    forwarded(seen, as_the_app)
    assert caplog.messages == []
    assert offered["/image"] == "foxglove.RawImage"
    assert offered["/cloud"] == "foxglove.PointCloud"
    assert offered["/pose"] == offered["/transform"] == "foxglove.FrameTransform"
    assert set(offered) == {f"/{topic}" for topic in STANDARD}


def unused_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_foxglove_writes_a_file(tmp_path: Path) -> None:
    pytest.importorskip("foxglove", reason="foxglove-sdk is not installed")
    from tensorbus._view.sinks.to_foxglove import FoxgloveSink

    file = tmp_path / "all.mcap"
    sink = FoxgloveSink(str(file))
    sink.send("speed", HEADER, Parts(numbers={"": 2.5}))
    sink.close()
    written = file.read_bytes()
    assert written[:8] == written[-8:] == b"\x89MCAP0\r\n"


def run_rerun(file: str) -> None:
    from tensorbus._view import run

    raise SystemExit(run(None, rerun=file))


def test_the_command_forwards_until_a_signal(tmp_path: Path, elsewhere: Elsewhere) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    file = tmp_path / "run.rrd"
    with tb.Publisher("topic", history=1) as sender:
        sender.publish(1)
        command = elsewhere.start(run_rerun, str(file))
        assert sender.wait_for_subscribers(timeout=PATIENCE)
        command.signal(signal.SIGINT)
        assert command.end()[0] == 0
    assert file.stat().st_size > 0


def run_without_packages() -> None:
    from tensorbus._view import run

    for package in ("aiohttp", "rerun", "foxglove"):
        sys.modules[package] = None  # type: ignore[assignment]
        options = {package: ""} if package in ("rerun", "foxglove") else {}
        try:
            run(None, open_browser=False, **options)  # type: ignore[arg-type]
        except tb.Unsupported as error:
            tell(str(error))


def test_without_a_package_the_error_says_what_to_install(elsewhere: Elsewhere) -> None:
    command = elsewhere.start(run_without_packages)
    install = "is not installed: pip install 'tensorbus"
    assert command.hear() == f"aiohttp {install}[view]'"
    assert command.hear() == f"rerun {install}[rerun]'"
    assert command.hear() == f"foxglove {install}[foxglove]'"
