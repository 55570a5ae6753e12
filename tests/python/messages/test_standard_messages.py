"""The messages that everybody has."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, joined, tell
from support.message_examples import same, typed

FIELDS = {
    "StringMessage": {"data": ...},
    "IntMessage": {"data": ...},
    "FloatMessage": {"data": ...},
    "BytesMessage": {"data": ...},
    "DictMessage": {"data": ...},
    "ListMessage": {"data": ...},
    "ArrayMessage": {"data": ..., "name": "", "frame_id": ""},
    "MultiArrayMessage": {"arrays": ..., "frame_id": ""},
    "TensorMessage": {"data": ..., "name": ""},
    "MultiTensorMessage": {"tensors": ...},
    "ImageMessage": {"data": ..., "encoding": "rgb8", "width": 0, "height": 0},
    "PointCloudMessage": {
        "points": ...,
        "colors": None,
        "intensity": None,
        "normals": None,
        "frame_id": "",
    },
    "PoseMessage": {"position": ..., "orientation": ..., "frame_id": "", "child_frame_id": ""},
    "TransformMessage": {"matrix": ..., "frame_id": "", "child_frame_id": ""},
    "TimestampMessage": {"sec": ..., "nanosec": ...},
    "HeaderMessage": {"stamp_sec": ..., "stamp_nanosec": ..., "frame_id": "", "sequence": 0},
}


@pytest.mark.parametrize("name", FIELDS)
def test_each_has_its_fields_in_their_order_with_their_defaults(name: str) -> None:
    cls = getattr(tb, name)
    found = {
        field.name: ... if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(cls)
    }
    assert list(found.items()) == list(FIELDS[name].items())
    assert cls.definition().startswith(f"tensorbus.{name}\n")
    assert tb.MessageType.get(cls.fingerprint()) is cls


def examples() -> list[tb.Message]:
    eye = np.eye(4)
    return [
        tb.StringMessage("größer"),
        tb.IntMessage(2**62),
        tb.FloatMessage(0.1),
        tb.BytesMessage(b"\0\1"),
        tb.DictMessage({1: (2, {"a": eye}), "s": {np.int8(3)}}),
        tb.ListMessage([eye, [None, (eye,)]]),
        tb.ArrayMessage(np.array(3.0), "scalar", "map"),
        tb.ArrayMessage(np.array(["2020-01-01"], "M8[D]")),
        tb.MultiArrayMessage({"a": eye, "b": np.zeros((0, 3), np.float16)}, "map"),
        tb.ImageMessage(np.zeros((2, 3, 3), np.uint8)),
        tb.PointCloudMessage(np.zeros((5, 3), np.float32), intensity=np.ones(5)),
        tb.PoseMessage(np.zeros(3), np.array([0.0, 0, 0, 1]), "map", "base"),
        tb.TransformMessage(eye, "map", "base"),
        tb.TimestampMessage.now(),
        tb.HeaderMessage(1, 2, "map", 3),
    ]


@pytest.mark.parametrize("index", range(len(examples())))
def test_each_arrives_over_the_bus_and_in_bytes(index: int) -> None:
    message = examples()[index]
    cls = type(message)
    with joined(**typed(cls)) as (
        publisher,
        subscriber,
    ):
        publisher.publish(message)
        received = subscriber.receive().data
    for found in (received, cls.from_bytes(message.to_bytes())[0]):
        assert type(found) is cls
        assert same(vars(found), vars(message))


def test_tensors_keep_dtype_strides_and_requires_grad(torch: Any) -> None:
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).t().requires_grad_()
    with joined(**typed(tb.TensorMessage)) as (publisher, subscriber):
        publisher.publish(tb.TensorMessage(tensor, "weights"))
        received = subscriber.receive().data
    assert received.name == "weights"
    assert received.data.dtype == torch.bfloat16
    assert received.data.stride() == (1, 3)
    assert received.data.requires_grad
    assert torch.equal(received.data, tensor)


def test_tensors_by_name_arrive(torch: Any) -> None:
    with joined(**typed(tb.MultiTensorMessage)) as (publisher, subscriber):
        publisher.publish(tb.MultiTensorMessage({"a": torch.ones(2), "b": torch.zeros(())}))
        received = subscriber.receive().data.tensors
    assert {name: tensor.tolist() for name, tensor in received.items()} == {"a": [1, 1], "b": 0}


@pytest.mark.parametrize("wrong", [np.zeros(3), [1.0], None])
def test_what_is_no_torch_tensor_is_a_type_error(wrong: Any, torch: Any) -> None:
    with pytest.raises(TypeError, match=r"TensorMessage\.data: expected tensor, got"):
        tb.TensorMessage(wrong)
    with pytest.raises(TypeError, match=r"MultiTensorMessage\.tensors\['a'\]: expected tensor"):
        tb.MultiTensorMessage({"a": wrong})


def test_without_pytorch_a_tensor_message_says_what_to_install(elsewhere: Elsewhere) -> None:
    def make() -> None:
        import sys

        sys.modules["torch"] = None  # type: ignore[assignment]
        import tensorbus as tb

        for build in (
            lambda: tb.TensorMessage([1.0]),
            lambda: tb.MultiTensorMessage({"a": [1.0]}),
        ):
            try:
                build()
            except tb.Unsupported as error:
                tell(str(error))

    other = elsewhere.start(make)
    for name in ("TensorMessage.data", "MultiTensorMessage.tensors['a']"):
        said = other.hear()
        assert said.startswith(name)
        assert "pip install tensorbus[torch]" in said


@pytest.mark.parametrize(
    ("shape", "given", "size"),
    [
        ((480, 640, 3), {}, (640, 480)),
        ((480, 640), {}, (640, 480)),
        ((480, 640), {"width": 100}, (100, 480)),
        ((480,), {}, (0, 0)),
    ],
)
def test_an_image_takes_its_size_from_its_shape(
    shape: tuple[int, ...], given: dict[str, int], size: tuple[int, int]
) -> None:
    image = tb.ImageMessage(np.zeros(shape, np.uint8), **given)
    assert (image.width, image.height) == size


def test_now_is_the_wall_clock() -> None:
    before = time.time_ns()
    now = tb.TimestampMessage.now()
    assert before <= now.sec * 10**9 + now.nanosec <= time.time_ns()
    assert 0 <= now.nanosec < 10**9


def test_they_are_known_to_a_process_that_never_named_them(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        import tensorbus as tb

        with tb.Subscriber("topic") as subscriber:
            header = subscriber.receive(PATIENCE).data["header"]
            tell((type(header).__name__, header.frame_id))

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(receive)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish({"header": tb.HeaderMessage(1, 2, "map")})
        assert other.hear() == ("HeaderMessage", "map")


def test_messages_import_neither_torch_nor_numpy(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import sys

        import tensorbus as tb

        assert "dataclasses" not in sys.modules
        assert "tensorbus.messages" not in sys.modules
        with tb.Publisher("t", tb.StringMessage) as publisher:
            publisher.publish(tb.StringMessage("a"))
        assert tb.Message.decode(tb.IntMessage(1).to_bytes())[0] == tb.IntMessage(1)
        assert not {"torch", "numpy"} & set(sys.modules)

    elsewhere.run(look)
