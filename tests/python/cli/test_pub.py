"""`tensorbus topic pub`: values, lines, images and arrays, and how often they are published."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.screens.commands import Tensorbus

pytest.importorskip("typer", reason="typer is not installed")

np = pytest.importorskip("numpy", reason="NumPy is not installed")

PUB = ("topic", "pub", "topic")
WAIT = ("--wait", str(PATIENCE))
COMMAND = (sys.executable, "-m", "tensorbus", *PUB)


@pytest.fixture
def subscriber() -> Iterator[tb.Subscriber[Any]]:
    with tb.Subscriber[Any]("topic", timeout=PATIENCE, library="numpy") as subscriber:
        yield subscriber


def data(subscriber: tb.Subscriber[Any], count: int) -> list[Any]:
    """The next messages, in time; there is no other."""
    found = [subscriber.receive().data for _ in range(count)]
    assert subscriber.try_receive() is None
    return found


@contextmanager
def running(*arguments: str) -> Iterator[Popen[str]]:
    with Popen([*COMMAND, *arguments], stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def write_image(path: Path, array: Any) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image.fromarray(array).save(path)


def test_more_samples_than_a_queue_holds_all_arrive(
    subscriber: tb.Subscriber[Any], tensorbus: Tensorbus
) -> None:
    with running("1", "--count", "100", *WAIT) as process:
        assert data(subscriber, 100) == [1] * 100
        assert process.wait(PATIENCE) == 0


def test_several_values_are_published_in_turn(
    subscriber: tb.Subscriber[Any], tensorbus: Tensorbus
) -> None:
    tensorbus(*PUB, "1", '"two"', *WAIT)
    assert data(subscriber, 2) == [1, "two"]
    tensorbus(*PUB, "1", '"two"', "--count", "3")
    assert data(subscriber, 3) == [1, "two", 1]


def test_lines_are_published_as_they_come(subscriber: tb.Subscriber[Any]) -> None:
    with running("-", "--type", "tensorbus.FloatMessage", *WAIT) as process:
        assert process.stdin is not None
        for number in range(3):
            process.stdin.write(f"{number}.5\n\n")
            process.stdin.flush()
            assert subscriber.receive().data == {"data": number + 0.5}
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_a_line_that_is_no_value_is_named(subscriber: tb.Subscriber[Any]) -> None:
    with Popen([*COMMAND, "-", *WAIT], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        _, errors = process.communicate("7\ngo\n", timeout=PATIENCE)
    assert process.returncode == 2
    assert errors.startswith("tensorbus: line 2 of standard input: 'go' is neither JSON nor")
    assert data(subscriber, 1) == [7]


def test_images_of_a_folder_are_published_by_number(
    subscriber: tb.Subscriber[Any], tensorbus: Tensorbus, tmp_path: Path
) -> None:
    colours = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    write_image(tmp_path / "10.png", colours)
    write_image(tmp_path / "2.png", colours[..., 0])
    write_image(tmp_path / "3.PNG", np.full((2, 4), 40_000, np.uint16))
    (tmp_path / "notes.txt").write_text("no image")
    done = tensorbus(*PUB, str(tmp_path), *WAIT)
    assert (done.status, done.out) == (0, "published 3, delivered 3\n")
    gray, deep, coloured = data(subscriber, 3)
    assert (gray["encoding"], deep["encoding"]) == ("mono8", "mono16")
    assert (gray["data"] == colours[..., :1]).all()
    assert (deep["data"] == np.full((2, 4, 1), 40_000)).all()
    assert (coloured["encoding"], coloured["width"], coloured["height"]) == ("rgb8", 4, 2)
    assert (coloured["data"] == colours).all()
    assert [each.types for each in tb.list_topics()] == []  # it has ended


def test_images_are_messages_of_their_class(tensorbus: Tensorbus, tmp_path: Path) -> None:
    write_image(tmp_path / "a.jpg", np.full((8, 8, 3), 128, np.uint8))
    with tb.Subscriber("topic", tb.ImageMessage, timeout=PATIENCE) as subscriber:
        tensorbus(*PUB, str(tmp_path / "*.jpg"), *WAIT)
        image = subscriber.receive().data
    assert isinstance(image, tb.ImageMessage)
    assert image.data.shape == (8, 8, 3)
    assert abs(int(image.data[0, 0, 0]) - 128) < 4


@pytest.mark.parametrize("damage", ["no image", "half an image"])
def test_a_file_that_is_no_image_is_named(
    damage: str, tensorbus: Tensorbus, tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    write_image(path, np.random.default_rng(7).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    path.write_bytes(b"x" if damage == "no image" else path.read_bytes()[:2000])
    done = tensorbus(*PUB, str(path))
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"tensorbus: file '{path}': ")
    assert "Traceback" not in done.err


def test_an_array_is_lent_from_its_file(
    subscriber: tb.Subscriber[Any], tensorbus: Tensorbus, tmp_path: Path
) -> None:
    array = np.arange(6_000_000, dtype=np.float32).reshape(3, 1000, 2000)
    np.save(tmp_path / "a.npy", array)
    used = tb.participant().arena["used_bytes"]
    tensorbus(*PUB, str(tmp_path / "a.npy"), *WAIT)
    (whole,) = data(subscriber, 1)
    tensorbus(*PUB, str(tmp_path / "a.npy"), "--each")
    rows = data(subscriber, 3)
    assert tb.participant().arena["used_bytes"] == used  # nothing was copied
    assert (whole == array).all()
    assert all((row == array[number]).all() for number, row in enumerate(rows))


def test_a_folder_without_images_and_arrays_is_refused(
    tensorbus: Tensorbus, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").touch()
    done = tensorbus(*PUB, str(tmp_path))
    assert done.status == 2
    assert "has no images (png, jpg) and no arrays (npy)" in done.err


def test_each_takes_rows_of_arrays_and_whole_images(
    subscriber: tb.Subscriber[Any], tensorbus: Tensorbus, tmp_path: Path
) -> None:
    write_image(tmp_path / "1.png", np.zeros((2, 2, 3), np.uint8))
    np.save(tmp_path / "2.npy", np.arange(2))
    tensorbus(*PUB, str(tmp_path), "--each", *WAIT)
    image, *rows = data(subscriber, 3)
    assert image.data.shape == (2, 2, 3)
    assert rows == [0, 1]


def test_a_mapped_array_outlives_the_command(
    subscriber: tb.Subscriber[Any], tmp_path: Path
) -> None:
    array = np.arange(1_000_000)
    np.save(tmp_path / "a.npy", array)
    with running(str(tmp_path / "a.npy"), *WAIT) as process:
        assert process.wait(PATIENCE) == 0
    (tmp_path / "a.npy").unlink()
    assert (subscriber.receive().data == array).all()


def test_files_are_repeated_with_loop_alone(
    subscriber: tb.Subscriber[Any], tensorbus: Tensorbus, tmp_path: Path
) -> None:
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", np.int64(number))
    tensorbus(*PUB, str(tmp_path), "--count", "5", *WAIT)
    assert data(subscriber, 2) == [0, 1]
    tensorbus(*PUB, str(tmp_path), "--count", "5", "--loop")
    assert data(subscriber, 5) == [0, 1, 0, 1, 0]


def test_history_is_kept_for_later_subscribers_until_a_signal() -> None:
    with running("[1, 2, 3]", "--each", "--history", "2") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "published 3, delivered 0\n"
        with tb.Subscriber[Any]("topic", timeout=PATIENCE) as subscriber:
            assert [subscriber.receive().data for _ in range(2)] == [2, 3]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_a_value_is_repeated_at_a_rate_until_a_signal(subscriber: tb.Subscriber[Any]) -> None:
    with running("1", "--rate", "1000") as process:
        assert [subscriber.receive().data for _ in range(20)] == [1] * 20
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_a_subscriber_that_does_not_read_can_be_given_up() -> None:
    with (
        tb.Subscriber[Any]("topic", depth=1, reliable=True),
        running("1", "--count", "100", *WAIT) as process,
    ):

        def is_blocked() -> bool:
            links = [
                link
                for participant in tb.inspect().participants
                for publisher in participant.publishers
                for link in publisher.links
            ]
            return any(link.blocked_ns for link in links)

        eventually(is_blocked)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1.5", 1.5),
        ('{"id": 7, "ready": true}', {"id": 7, "ready": True}),
        ("(1, None)", (1, None)),
        ('"go"', "go"),
    ],
)
def test_publishes_what_is_typed_in(value: str, message: Any, tensorbus: Tensorbus) -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        done = tensorbus("topic", "pub", "topic", value, "--wait", str(PATIENCE))
        assert (done.status, done.out) == (0, "published 1, delivered 1\n")
        assert subscriber.receive().data == message


def test_makes_arrays_and_messages(tensorbus: Tensorbus) -> None:
    with tb.Subscriber("topic", timeout=PATIENCE, library="numpy") as subscriber:
        tensorbus("topic", "pub", "topic", "[[0, 255]]", "--type", "uint8", "--wait", "30")
        array = subscriber.receive().data
        assert (array.dtype, array.tolist()) == (np.uint8, [[0, 255]])
        tensorbus("topic", "pub", "topic", "1.5", "--type", "tensorbus.FloatMessage")
        assert subscriber.receive().data == {"data": 1.5}  # as an untyped subscriber has it


def test_repeats_at_a_rate(tensorbus: Tensorbus) -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        tensorbus("topic", "pub", "topic", "1", "--rate", "1000", "--count", "3", "--wait", "30")
        assert [subscriber.receive().header.sequence for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("go",), "is neither JSON nor a literal of Python"),
        (("1", "--type", "tensorbus.Nonsense"), "has no attribute 'Nonsense'"),
        (("1", "--type", "uint7"), "--type uint7"),
        (("nowhere.png",), "no file has this name"),
        (("nowhere/*.png",), "no file has this name"),
        (("7", "--each"), "--each: 7 has no rows"),
        (("-", "--loop"), "--loop cannot read standard input again"),
    ],
)
def test_refuses_what_it_cannot_read(
    arguments: tuple[str, ...], why: str, tensorbus: Tensorbus
) -> None:
    done = tensorbus("topic", "pub", "topic", *arguments)
    assert done.status == 2
    assert why in done.err
