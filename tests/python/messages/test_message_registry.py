"""The message types that a process knows."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import pytest

import tensorbus as tb
from support.harness import joined
from support.interpreters import classes_are_freed
from support.message_examples import Detection, Pose, typed


def made(value: type) -> type[tb.Message]:
    @dataclass
    class Made(tb.Message, name="robot.Made"):
        value: value  # type: ignore[valid-type]

    return Made


def test_every_class_is_registered_and_the_newer_of_two_counts() -> None:
    first, second, other = made(int), made(int), made(float)
    assert tb.MessageType.get(first.fingerprint()) is second
    assert tb.MessageType.get_all()[other.fingerprint()] is other
    assert tb.MessageType.get(tb.ImageMessage.fingerprint()) is tb.ImageMessage
    assert tb.MessageType.get(1) is None
    tb.MessageType.register(first)
    assert tb.MessageType.get(first.fingerprint()) is first


@classes_are_freed
def test_a_registered_class_goes_when_nobody_holds_it() -> None:
    fingerprint = made(bytes).fingerprint()
    gc.collect()
    assert tb.MessageType.get(fingerprint) is None


@classes_are_freed
def test_the_older_class_counts_again_when_the_newer_is_gone() -> None:
    older = made(complex)
    fingerprint = made(complex).fingerprint()
    assert older.fingerprint() == fingerprint
    gc.collect()
    assert tb.MessageType.get(fingerprint) is older
    sent = older(1j)  # type: ignore[call-arg]
    assert tb.Message.decode(sent.to_bytes())[0] == sent


def test_what_was_cleared_can_be_registered_again() -> None:
    kept = tb.MessageType.get_all()
    try:
        tb.MessageType.clear()
        assert tb.MessageType.get(Pose.fingerprint()) is None
        assert tb.MessageType.get(tb.ImageMessage.fingerprint()) is tb.ImageMessage
        with joined() as (publisher, subscriber):
            publisher.publish([Pose(1.0)])
            with pytest.raises(tb.Unsupported, match=r"robot\.Pose"):
                _ = subscriber.receive().data
    finally:
        for cls in kept.values():
            tb.MessageType.register(cls)
    assert tb.MessageType.get(Pose.fingerprint()) is Pose
    with pytest.raises(tb.InvalidArgument, match="does not inherit"):
        tb.MessageType.register(int)  # type: ignore[arg-type]


def test_a_class_that_was_made_anew_takes_what_the_old_one_is() -> None:
    old, new = made(int), made(int)
    with joined(publisher={"message_type": old}, subscriber={"message_type": new}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(new(1))  # type: ignore[call-arg]
        assert type(subscriber.receive().data) is new


def test_the_class_that_is_declared_counts_before_all_others_of_its_name() -> None:
    @dataclass
    class Other(tb.Message, name="robot.Pose"):
        angle: float

    assert tb.MessageType.get(Other.fingerprint()) is Other
    sent = Detection("cup", pose=Pose(1.0))
    with joined(**typed(Detection)) as (publisher, subscriber):
        publisher.publish(sent)
        assert subscriber.receive().data == sent
    tb.MessageType.register(Pose)
