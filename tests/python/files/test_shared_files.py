"""Files as tensors, handed to other processes by reference."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually, in_a_fork

_spawn = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.f32"
    np.arange(4096, dtype="float32").tofile(path)
    return path


class Process:
    """Another process, which does what `act` says to each command, and answers."""

    def __init__(self, act: Any) -> None:
        self._ours, theirs = _spawn.Pipe()
        self.process = _spawn.Process(target=_serve, args=(theirs, act), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, *command: Any) -> Any:
        self._ours.send(command)
        return self.answer()

    def answer(self) -> Any:
        assert self._ours.poll(60), "no answer"
        answer = self._ours.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def end(self) -> None:
        self._ours.close()
        self.process.join(60)
        if self.process.is_alive():
            self.kill()


def _serve(commands: Connection, act: Any) -> None:
    kept: dict[str, Any] = {}
    while True:
        try:
            command = commands.recv()
        except EOFError:
            return
        try:
            commands.send(act(kept, *command))
        except Exception as error:
            commands.send(error)


def _act(kept: dict[str, Any], verb: str, *arguments: Any) -> Any:
    """What the other process can be told to do; it keeps what it has under "x"."""
    match verb, *arguments:
        case "attach", handle, access:
            kept["x"] = tb.attach(handle, access=access)
        case ("sum",):
            return float(kept["x"].sum())
        case "write", index, value:
            kept["x"][index] = value
        case ("share",):
            kept["shared"] = tb.share(kept["x"])
            return kept["shared"].handle
        case "map", path, mode:
            kept["x"] = tb.map_file(path, dtype="float32", mode=mode)
        case ("forget",):
            kept.clear()
        case "mapped", path:
            return times_mapped(path)
        case ("used",):
            return tb.participant().arena["used_bytes"]
        case ("stop",):
            os.kill(os.getpid(), signal.SIGKILL)
    return None


@pytest.fixture
def other() -> Iterator[Process]:
    process = Process(_act)
    yield process
    process.end()


@pytest.fixture
def third() -> Iterator[Process]:
    process = Process(_act)
    yield process
    process.end()


def times_mapped(path: Path) -> int:
    """By this process."""
    return Path("/proc/self/maps").read_text().count(str(path))


def in_use() -> int:
    return tb.participant().arena["used_bytes"]


def test_a_file_is_shared_without_a_copy(path: Path, other: Process) -> None:
    before = in_use()
    numbers = tb.map_file(path, dtype="float32")
    with tb.share(numbers) as shared:
        assert in_use() == before
        other.ask("attach", shared.handle, "read")
    assert other.ask("sum") == float(numbers.sum())
    del numbers
    assert other.ask("sum") == float(np.arange(4096).sum())


def test_part_of_a_file_anywhere_in_it(path: Path, other: Process) -> None:
    numbers = tb.map_file(path, shape=(2000,), dtype="float32", offset=4 * 1500)
    with tb.share({"part": numbers[7:90:3], "id": 3}) as shared:
        other.ask("attach", shared.handle, "read")
        found = tb.attach(shared.handle)
    assert found["id"] == 3
    np.testing.assert_array_equal(found["part"], numbers[7:90:3])


def test_writes_to_a_file_are_seen_by_all_and_reach_it(path: Path, other: Process) -> None:
    numbers = tb.map_file(path, dtype="float32", mode="r+")
    with tb.share(numbers, shared=True) as shared:
        other.ask("attach", shared.handle, "shared")
        reading = tb.attach(shared.handle, access="read")
    other.ask("write", 5, 1000.0)
    assert numbers[5] == reading[5] == 1000.0
    tb.flush(numbers)
    assert np.fromfile(path, "float32")[5] == 1000.0
    with pytest.raises(ValueError, match="read-only"):
        reading[5] = 1


def test_a_private_reader_of_a_file_writes_for_itself(path: Path, other: Process) -> None:
    numbers = tb.map_file(path, dtype="float32", mode="r")
    with tb.share(numbers) as shared:
        other.ask("attach", shared.handle, "private")
    other.ask("write", 0, 50.0)
    assert other.ask("sum") == float(numbers.sum()) + 50
    assert np.fromfile(path, "float32")[0] == 0


def test_a_file_that_is_only_read_cannot_be_shared_to_be_written(path: Path) -> None:
    before = in_use()
    numbers = tb.map_file(path, dtype="float32", mode="r")
    with tb.share(numbers, shared=True) as shared:  # so it is copied
        assert in_use() > before
        found = tb.attach(shared.handle, access="shared")
        found[0] = 7
    assert np.fromfile(path, "float32")[0] == 0


def test_pages_that_were_written_for_ourselves_are_copied(path: Path) -> None:
    before = in_use()
    numbers = tb.map_file(path, dtype="float32", mode="c")
    numbers[0] = 99
    with tb.share(numbers) as shared:
        assert in_use() > before
        assert tb.attach(shared.handle)[0] == 99


def test_a_file_is_published_by_reference(path: Path) -> None:
    numbers = tb.map_file(path, dtype="float32")
    with (
        tb.Publisher("files", history=1) as publisher,
        tb.Subscriber("files", timeout=60) as subscriber,
    ):
        publisher.publish(numbers)
        found = subscriber.receive().data
        assert publisher.stats["bytes_copied"] == 0
    np.testing.assert_array_equal(found, numbers)


def test_a_sample_that_overtakes_its_file_waits_for_it(tmp_path: Path) -> None:
    with (
        tb.Publisher("files") as publisher,
        tb.Subscriber("files", timeout=60, spin=1) as subscriber,
    ):
        publisher.wait_for_subscribers()
        for number in range(50):  # each a file that the subscriber has not seen
            path = tmp_path / f"{number}.u8"
            path.write_bytes(bytes([number]) * 100)
            publisher.publish(tb.map_file(path, dtype="uint8"))
            assert subscriber.receive().data[99] == number


def test_a_file_is_handed_on_and_outlives_who_mapped_it(
    path: Path, other: Process, third: Process
) -> None:
    other.ask("map", path, "r")
    found = tb.attach(other.ask("share"))
    with tb.share(found) as alive:
        third.ask("attach", alive.handle, "read")
    assert third.ask("sum") == float(found.sum())
    other.kill()
    with tb.share(found) as left:
        third.ask("attach", left.handle, "read")
    path.unlink()
    assert third.ask("sum") == float(found.sum()) == float(np.arange(4096).sum())
    assert third.ask("used") == 0


def test_a_reader_of_a_file_that_is_cut_short_reads_zeros_and_lives(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = Process(_act)  # now, so that its stderr is the one that is read here
    numbers = tb.map_file(path, dtype="float32")
    with tb.share(numbers) as shared:
        other.ask("attach", shared.handle, "read")
        os.truncate(path, 4096)
        assert other.ask("sum") == float(np.arange(1024).sum())
    other.end()
    assert str(path) in capfd.readouterr().err
    with pytest.raises(tb.SystemCallError, match="cut short"):
        tb.share(numbers)


def test_a_file_may_be_larger_than_the_budget(tmp_path: Path, other: Process) -> None:
    path = tmp_path / "large.u8"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse
    numbers = tb.map_file(path, dtype="uint8")
    with tb.share(numbers[1 << 39 :][:10]) as shared:
        other.ask("attach", shared.handle, "read")
    assert other.ask("sum") == 0


def test_who_attached_lets_go_of_a_file_when_its_owner_has(path: Path, other: Process) -> None:
    for _ in range(5):
        with tb.share(tb.map_file(path, dtype="float32")) as shared:
            other.ask("attach", shared.handle, "read")
        other.ask("forget")
    eventually(lambda: other.ask("mapped", path) == 0)


def test_a_file_that_comes_back_to_its_owner_is_let_go_of(path: Path) -> None:
    with tb.Queue() as there, tb.Queue() as back:
        for _ in range(5):
            there.put(tb.map_file(path, dtype="float32"))
            in_a_fork(lambda: back.put(there.get(timeout=PATIENCE)))
            assert back.get(timeout=PATIENCE)[1] == 1
        eventually(lambda: times_mapped(path) == 0)
