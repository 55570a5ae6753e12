"""What a notebook shows of samples, topics and queues."""

from __future__ import annotations

import copy
import os
import pickle
import re
import struct
import zlib
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus._topics.sample import Samples


@dataclass
class Frame(tb.Message, name="test.notebooks.Frame"):
    image: np.ndarray[Any, Any]
    camera: str = "left"


@pytest.fixture
def publisher() -> Iterator[tb.Publisher]:
    with tb.Publisher("t", history=1) as publisher:
        yield publisher


def received(publisher: tb.Publisher, data: Any, **options: Any) -> tb.Sample:
    publisher.publish(data)
    with tb.Subscriber("t", **options) as subscriber:
        return subscriber.receive(PATIENCE)


def html_of(found: Any) -> str:
    html: str = found._repr_html_()
    assert html.count("<table>") == html.count("</table>") == 1
    return html


def images_in(html: str) -> list[np.ndarray[Any, Any]]:
    found = re.findall(r'<img src="data:image/png;base64,([\w+/=]+)">', html)
    return [pixels_of(b64decode(png)) for png in found]


def pixels_of(png: bytes) -> np.ndarray[Any, Any]:
    """Reads a PNG as the specification (https://www.w3.org/TR/png/) has it, without filters."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    rest, chunks = png[8:], {}
    while rest:
        (length,) = struct.unpack(">I", rest[:4])
        kind, data = rest[4:8], rest[8 : 8 + length]
        assert struct.unpack(">I", rest[8 + length : 12 + length]) == (zlib.crc32(kind + data),)
        chunks[kind], rest = data, rest[12 + length :]
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert depth == 8
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, {0: 1, 2: 3}[colour])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_image_is_shown_as_a_thumbnail(
    publisher: tb.Publisher, channels: int, library: Any
) -> None:
    if library == "torch":
        pytest.importorskip("torch")
    image = np.random.default_rng(7).integers(0, 256, (480, 640, channels), dtype=np.uint8)
    (shown,) = images_in(html_of(received(publisher, image, library=library)))
    assert max(shown.shape[:2]) <= 160
    assert (shown == image[::4, ::4]).all()


def test_a_thumbnail_has_the_colours_of_its_encoding(publisher: tb.Publisher) -> None:
    image = np.full((4, 4, 3), (1, 2, 3), np.uint8)
    message = tb.ImageMessage(image, encoding="bgr8")
    (shown,) = images_in(html_of(received(publisher, message)))
    assert shown[0, 0].tolist() == [3, 2, 1]


def test_a_tensor_without_memory_in_the_shape_of_an_image_is_named(
    publisher: tb.Publisher,
) -> None:
    torch = pytest.importorskip("torch")
    html = html_of(received(publisher, torch.empty(4, 4, 3, device="meta")))
    assert images_in(html) == []
    assert "(4, 4, 3)" in html


def test_an_image_of_floats_from_0_to_1_is_shown(publisher: tb.Publisher) -> None:
    image = np.linspace(0, 1, 12, dtype=np.float32).reshape(2, 2, 3)
    (shown,) = images_in(html_of(received(publisher, image)))
    assert (shown == (image * 255).astype(np.uint8)).all()


def test_an_image_that_requires_a_gradient_is_shown(
    publisher: tb.Publisher, torch: ModuleType
) -> None:
    sample = received(publisher, torch.ones(2, 2, 3).requires_grad_())
    assert len(images_in(html_of(sample))) == 1


@pytest.mark.parametrize(
    "tensor",
    [
        np.zeros((2, 3), np.uint8),
        np.zeros((0, 2, 3), np.uint8),
        np.zeros((2, 2, 4), np.uint8),
        np.zeros((2, 2, 3), np.int64),
        np.full((2, 2, 3), 1.5),
        np.full((2, 2, 3), np.nan),
        np.zeros((2, 2, 3), np.complex64),
    ],
    ids=lambda tensor: f"{tensor.dtype}{tensor.shape}",
)
def test_other_tensors_are_shown_by_dtype_and_shape(
    publisher: tb.Publisher, tensor: np.ndarray[Any, Any]
) -> None:
    html = html_of(received(publisher, tensor))
    assert f"<td>{tensor.dtype} {tensor.shape}</td>" in html


def test_a_dtype_without_numpy_and_any_library_have_a_text(
    publisher: tb.Publisher, torch: ModuleType
) -> None:
    assert "torch.bfloat16 (2, 2, 3)" in html_of(
        received(publisher, torch.zeros(2, 2, 3, dtype=torch.bfloat16))
    )
    html_of(received(publisher, np.zeros((2, 2, 3), np.uint8), library="dlpack"))


def test_a_dict_is_a_small_table(publisher: tb.Publisher) -> None:
    message = {"image": np.zeros((2, 3, 3), np.uint8), "id": 7, "boxes": [np.zeros(4)] * 2}
    html = html_of(received(publisher, message))
    assert len(images_in(html)) == 1
    assert "<th>id</th><td>7</td>" in html
    assert "<th>boxes</th><td>list of 2</td>" in html
    html = html_of(received(publisher, {str(key): "x" * 10_000 for key in range(1000)}))
    assert html.count("<tr>") < 30
    assert "980 more" in html
    assert len(html) < 5000


def test_a_typed_message_is_a_table_of_its_fields() -> None:
    image = np.zeros((2, 3, 3), np.uint8)
    with tb.Publisher("t", Frame, history=1) as publisher:
        html = html_of(received(publisher, Frame(image), message_type=Frame))
    assert len(images_in(html)) == 1
    assert "<th>camera</th><td>&#x27;left&#x27;</td>" in html


def test_what_cannot_be_read_is_shown_with_the_reason(
    publisher: tb.Publisher, torch: ModuleType
) -> None:
    sparse = torch.eye(2).to_sparse()
    assert "<th>error</th>" in html_of(received(publisher, sparse, library="numpy"))


def test_topics_show_name_state_and_fill() -> None:
    with tb.Publisher("<b>") as publisher, tb.Subscriber("<b>") as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(7)
        shown = html_of(publisher)
        assert "<b>Publisher &lt;b&gt;</b>" in shown
        assert "<th>state</th><td>open</td>" in shown
        assert "<th>subscribers</th><td>1</td>" in shown
        assert subscriber.receive(PATIENCE).data == 7
        assert "<th>received</th><td>1</td>" in html_of(subscriber)
    assert "<th>state</th><td>closed</td>" in html_of(publisher)
    assert "<th>state</th><td>closed</td>" in html_of(subscriber)
    with tb.AsyncSubscriber("<b>") as waiting:
        assert "<th>publishers</th><td>0</td>" in html_of(waiting)


def test_queues_show_name_state_and_fill() -> None:
    with tb.Queue(maxsize=8, name="<jobs>") as queue:
        queue.put(7)
        shown = html_of(queue)
        assert "<b>Queue &lt;jobs&gt;</b>" in shown
        assert "<th>items</th><td>1 of 8</td>" in shown
    assert "<th>state</th><td>closed</td>" in html_of(queue)


def rows_in(html: str) -> list[list[str]]:
    """The texts of the cells of each row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in rows]


def test_lists_of_topics_and_nodes_are_tables_and_lists() -> None:
    assert rows_in(html_of(tb.list_topics())) == [
        ["topic", "type", "publishers", "nodes", "machines"]
    ]
    with tb.Node("<eye>") as node, tb.Publisher("b"):
        node.create_publisher("a", Frame)
        topics, nodes = tb.list_topics(), tb.list_nodes()
    assert rows_in(html_of(topics))[1:] == [
        ["a", "test.notebooks.Frame", "1", "&lt;eye&gt;", ""],
        ["b", "", "1", "", ""],
    ]
    assert rows_in(html_of(nodes))[1:] == [["&lt;eye&gt;", str(os.getpid()), "", "a"]]
    topics.append("c")  # type: ignore[arg-type]
    assert topics._repr_html_() is None  # type: ignore[attr-defined]
    topics.pop()
    assert topics == [*topics]
    assert repr(topics) == repr([*topics])
    for other in (
        topics[:],
        sorted(topics, key=str),
        pickle.loads(pickle.dumps(topics)),
        copy.copy(topics),
    ):
        assert type(other) is list
        assert other == topics


def test_received_samples_are_a_table_with_thumbnails() -> None:
    with tb.Publisher("t", reliable=True) as publisher, tb.Subscriber("t") as subscriber:
        assert subscriber.try_receive_many(8)._repr_html_()  # type: ignore[attr-defined]
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish({"image": np.zeros((128, 2, 3), np.uint8), "id": 7})
        publisher.publish(8)
        samples = subscriber.receive_many(2, PATIENCE)
        samples += subscriber.receive_many(2, PATIENCE) if len(samples) == 1 else []
    html = html_of(samples)
    head, first, second = rows_in(html)
    assert head == ["topic", "sequence", "age", "image", "id", "data"]
    assert [first[1], first[4:], second[1], second[3:]] == ["0", ["7", ""], "1", ["", "", "8"]]
    (shown,) = images_in(html)
    assert shown.shape == (64, 1, 3)
    assert type(samples[1:]) is list


def test_a_list_of_samples_shows_what_cannot_be_read(torch: ModuleType) -> None:
    with tb.Publisher("t", history=2) as publisher:
        publisher.publish(7)
        publisher.publish(torch.eye(2).to_sparse())
        with tb.Subscriber("t", library="numpy") as subscriber:
            samples = [subscriber.receive(PATIENCE) for _ in range(2)]
            html = html_of(Samples(samples))
    assert rows_in(html)[1][3:] == ["7", ""]
    assert "only PyTorch has them" in rows_in(html)[2][4]


def test_a_recording_shows_its_topics_and_its_slices_their_samples(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("t", reliable=True, depth=30) as publisher,
        tb.Recorder(path, all=True, reliable=True),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(30):
            publisher.publish({"id": number, "image": np.zeros((2, 2, 1), np.uint8)})
    recording = tb.Recording(path)
    assert [row[:3] for row in rows_in(html_of(recording))] == [
        ["topic", "type", "messages"],
        ["t", "-", "30"],
    ]
    html = html_of(recording[5:])
    head, first, *_, last = rows_in(html)
    assert head == ["topic", "sequence", "time", "id", "image"]
    assert first[:4] == ["t", "5", "0.000 s", "5"]
    assert last == ["... 5 more"]
    assert len(images_in(html)) == 20
    assert rows_in(html_of(recording[30:])) == [["topic", "sequence", "time"]]
    part = recording[28:]
    recording.close()
    assert "closed" in html_of(recording)
    assert len(rows_in(html_of(part))) == 3


def test_a_damaged_recording_is_shown_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with tb.Publisher("t", reliable=True) as publisher, tb.Recorder(path, all=True, reliable=True):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(3):
            publisher.publish(np.full(100_000, number, np.uint8))
    path.write_bytes(path.read_bytes()[:250_000])
    recording = tb.Recording(path)
    assert len(rows_in(html_of(recording[:]))) == len(recording) + 1 < 4


def test_an_inspection_is_a_table_of_processes(publisher: tb.Publisher) -> None:
    head, row = rows_in(html_of(tb.inspect()))
    assert head[:4] == ["process", "version", "age", "publishers"]
    assert f"({os.getpid()})" in row[0]
    assert row[3] == "1"
