"""What a notebook shows of samples, topics and queues."""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE


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
