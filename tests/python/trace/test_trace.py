"""Processes that are traced while they run."""

from __future__ import annotations

import collections
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, in_a_fork, joined, tell, unused
from tensorbus._trace.durations import hops_of, paths_of
from tensorbus._trace.events import PARENT, PUBLISH, RECEIVE, RELEASE, USE, Event
from tensorbus._trace.recording import Recording
from tensorbus._trace.samples import samples_of

COUNT = 20


@contextmanager
def recording(*topics: str, processes: int = 1) -> Iterator[Recording]:
    """Records in this thread: from when so many processes are traced, until `end`."""
    found = Recording(list(topics), None)
    try:
        read_until(found, lambda: states(found).count("traced") == processes)
        yield found
    finally:
        found.end()


def read_until(found: Recording, condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        found._poll()
        return condition()

    eventually(holds)


def states(found: Recording) -> list[str]:
    return [source.state for source in found.sources]


def counts(found: Recording) -> dict[tuple[str, int], int]:
    """Events by topic and kind."""
    return dict(
        collections.Counter(
            (found.topic_of(event.child or event.sample), event.kind) for event in found.events()
        )
    )


def capture() -> None:
    with tb.Publisher("camera", reliable=True, depth=2) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        tell("ready")
        count = hear()
        begun = []
        for number in range(count):
            begun.append(time.monotonic_ns())
            publisher.publish({"number": number, "image": np.zeros((480, 640), np.uint8)})
        tell(begun)
        hear()


def detect() -> None:
    import asyncio

    async def main() -> None:
        async with tb.Node("detector") as node:
            boxes = node.create_publisher("boxes", reliable=True)

            async def on_image(data, header) -> None:  # type: ignore[no-untyped-def]
                await asyncio.sleep(0)
                boxes.publish(np.full(4, data["number"]))

            node.create_subscriber("camera", callback=on_image)
            await node.run()

    asyncio.run(main())


def collect(count: int) -> None:
    with tb.Subscriber("boxes", timeout=PATIENCE) as subscriber:
        tell("ready")
        ended = []
        for _ in range(count):
            sample = subscriber.receive()
            ended.append(time.monotonic_ns())
            assert sample.data[0] == len(ended) - 1
            del sample
        tell(ended)
        hear()


def test_a_pipeline_of_three_processes(elsewhere: Elsewhere) -> None:
    sink = elsewhere.start(collect, COUNT)
    model = elsewhere.start(detect)
    camera = elsewhere.start(capture)
    assert (sink.hear(), camera.hear()) == ("ready", "ready")
    with recording(processes=3) as found:
        camera.tell(COUNT)
        begun, ended = camera.hear(), sink.hear()
        read_until(found, lambda: found._count >= 9 * COUNT)  # the last may come late
        found.end()
        events = found.events()
    for process in (camera, sink):
        process.tell()
    model.signal(signal.SIGINT)
    model.end()
    assert counts(found) == {
        **{("camera", kind): COUNT for kind in (PUBLISH, RECEIVE, USE, RELEASE)},
        **{("boxes", kind): COUNT for kind in (PUBLISH, RECEIVE, USE, RELEASE, PARENT)},
    }
    pids = {kind: pid_of(found, events, kind) for kind in ("camera", "boxes")}
    assert pids == {"camera": {camera.pid}, "boxes": {model.pid}}
    samples = samples_of(events)
    for traced in samples.values():
        (receipt,) = traced.receipts
        assert traced.published is not None
        assert receipt.used is not None
        assert receipt.released is not None
        assert (
            traced.published.time_ns
            <= receipt.received.time_ns
            <= receipt.used.time_ns
            <= receipt.released.time_ns
        )
    (path,) = paths_of(samples, found.topic_of)
    assert path.name == "camera → boxes"
    assert found.sources[path.process].pid == sink.pid
    measured = sorted(end - begin for begin, end in zip(begun, ended, strict=True))
    # From within publish() to within receive(): a little less than the processes have measured.
    assert all(0 < ours <= theirs for ours, theirs in zip(path.times_ns, measured, strict=True))
    assert {len(hop.times_ns) for hop in hops_of(samples, found.topic_of)} == {COUNT}


def pid_of(found: Recording, events: list[Event], topic: str) -> set[int]:
    return {
        found.sources[event.process].pid
        for event in events
        if event.kind == PUBLISH and found.topic_of(event.sample) == topic
    }


def test_topics_that_are_not_named_are_not_traced() -> None:
    with tb.Publisher("one") as one, tb.Publisher("other") as other, recording("one") as found:
        one.publish(1)
        other.publish(1)
        with tb.Publisher("one") as later:
            later.publish(1)
            found._poll()
    assert counts(found) == {("one", PUBLISH): 2}


def test_fields_alone_are_released_with_their_sample() -> None:
    with joined() as (publisher, subscriber), recording() as found:
        publisher.publish(1)
        first = subscriber.receive()
        publisher.publish(2)
        second = subscriber.receive()
        assert first.data == 1
        del first
    assert counts(found) == {
        ("topic", PUBLISH): 2,
        ("topic", RECEIVE): 2,
        ("topic", USE): 1,
        ("topic", RELEASE): 1,
    }
    del second


def test_a_view_keeps_a_sample_until_it_goes() -> None:
    with joined() as (publisher, subscriber), recording() as found:
        publisher.publish(np.zeros(1000))
        data = subscriber.receive().data[10:]
        found._poll()
        assert ("topic", RELEASE) not in counts(found)
        del data
        found._poll()
        assert counts(found)["topic", RELEASE] == 1
    unused()


def test_parents_that_a_program_names() -> None:
    with (
        joined("left") as (left, from_left),
        joined("right") as (right, from_right),
        tb.Publisher("both") as both,
        recording() as found,
    ):
        left.publish(1)
        right.publish(2)
        right.publish(3)
        parents = [from_left.receive(), from_right.receive().header]
        both.publish(0, parents=parents)
        both.publish(1)
        both.publish(2, parents=[from_right.receive()])
        with pytest.raises(TypeError, match="parents: expected samples or their headers, got int"):
            both.publish(3, parents=[7])  # type: ignore[list-item]
    made = [
        (event.child.sequence, found.topic_of(event.sample), event.sample.sequence)
        for event in found.events()
        if event.kind == PARENT and event.child is not None
    ]
    assert made == [(0, "left", 0), (0, "right", 0), (2, "right", 1)]


def test_what_is_not_read_in_time_is_counted() -> None:
    ring, more = 65536, 1000
    with tb.Publisher("topic") as publisher, recording() as found:
        for _ in range(ring + more):
            publisher.publish(1)
    (source,) = found.sources
    assert source.overwritten == more
    assert source.incomplete == 0
    numbers = [event.sample.sequence for event in found.events()]
    assert numbers == list(range(more, ring + more))


def trace_until_told(output: str) -> None:
    import sys

    from tensorbus._trace import run

    sys.exit(run(output=output))


def test_one_tracer_at_a_time_and_none_after_it_was_killed(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    with tb.Publisher("topic") as publisher:
        first = elsewhere.start(trace_until_told, str(tmp_path / "trace.json"))
        eventually(lambda: publisher._core.traced)
        second = elsewhere.start(trace_until_told, str(tmp_path / "second.json"))
        code, errors = second.end()
        assert code == 1
        assert f"process {first.pid} traces it already; one tracer at a time is possible" in errors
        publisher.publish(1)
        first.kill()
        eventually(lambda: not publisher._core.traced)
        publisher.publish(2)
        with recording() as found:
            publisher.publish(3)
    assert [event.sample.sequence for event in found.events()] == [2]


def test_a_stopped_tracer_holds_nobody_up(elsewhere: Elsewhere, tmp_path: Path) -> None:
    with joined(publisher={"reliable": True}) as (publisher, subscriber):
        tracer = elsewhere.start(trace_until_told, str(tmp_path / "trace.json"))
        eventually(lambda: publisher._core.traced)
        tracer.stop()
        for number in range(20_000):  # four events of each: more than a ring has
            publisher.publish(number)
            assert subscriber.receive().data == number
        tracer.signal(signal.SIGCONT)
        tracer.signal(signal.SIGINT)
        code, errors = tracer.end()
        assert code == 0
        assert "events were lost" in errors


def publish_for_ever() -> None:
    with tb.Publisher("topic") as publisher:
        publisher.publish(0)
        tell("ready")
        number = 0
        while True:
            publisher.publish(number)
            number += 1


def test_what_a_process_wrote_stays_when_it_is_killed(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(publish_for_ever)
    assert other.hear() == "ready"
    found = Recording([], None)
    read_until(found, lambda: bool(found._count))
    other.kill()
    read_until(found, lambda: states(found) == ["ended"])
    found.end()
    numbers = [event.sample.sequence for event in found.events()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_stopped_process_does_not_hold_the_tracer_up(elsewhere: Elsewhere) -> None:
    stopped = elsewhere.start(publish_for_ever)
    assert stopped.hear() == "ready"
    stopped.stop()
    with tb.Publisher("topic") as publisher:
        found = Recording([], None)
        read_until(found, lambda: sorted(states(found)) == ["asked", "traced"])
        publisher.publish(1)
        found.end()
    assert len(found.events()) == 1
    stopped.kill()


def test_tracing_comes_and_goes_while_threads_publish_and_receive() -> None:
    with joined() as (publisher, subscriber):
        going = threading.Event()

        def publish() -> None:
            while not going.is_set():
                publisher.publish(np.zeros(10))

        def receive() -> None:
            while not going.is_set():
                subscriber.try_receive()

        threads = [threading.Thread(target=work) for work in (publish, publish, receive)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(4):
                with recording() as found:
                    read_until(found, lambda: found._count > 100)
                for traced in samples_of(found.events()).values():
                    for receipt in traced.receipts:
                        assert not traced.published or (
                            traced.published.time_ns <= receipt.received.time_ns
                        )
        finally:
            going.set()
            for thread in threads:
                thread.join()


def test_a_forked_child_writes_nothing_of_its_parent() -> None:
    with joined() as (publisher, subscriber), recording() as found:
        publisher.publish(np.zeros(1000))
        held = [subscriber.receive()]
        in_a_fork(held.clear)
        found._poll()
        assert ("topic", RELEASE) not in counts(found)
        held.clear()
        found._poll()
        assert counts(found)["topic", RELEASE] == 1


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGHUP])
def test_the_command_writes_a_file_and_a_table(stop: signal.Signals, tmp_path: Path) -> None:
    import subprocess

    output = tmp_path / "trace.json"
    command = [sys.executable, "-m", "tensorbus", "trace", "topic", "--output", str(output)]
    with joined() as (publisher, subscriber):
        tracer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        eventually(lambda: publisher._core.traced)
        for number in range(7):
            publisher.publish(number)
            assert subscriber.receive().data == number
        tracer.send_signal(stop)
        printed, _ = tracer.communicate(timeout=PATIENCE)
    assert tracer.returncode == 0
    rows = [line.split() for line in printed.decode().splitlines()]
    name = ["topic:", "publish", "→", "receive"]
    assert any(row[:4] == name and row[-3] == "7" for row in rows)
    events = json.loads(output.read_text())["traceEvents"]
    assert sum(event["name"] == "publish topic" for event in events) == 7
    assert {event["pid"] for event in events} == {os.getpid()}


def test_a_file_that_cannot_be_written_is_an_error_before_the_recording(tmp_path: Path) -> None:
    from tensorbus._trace import run

    with pytest.raises(FileNotFoundError):  # otherwise it would record for ever
        run(output=str(tmp_path / "missing/trace.json"))


def test_a_recording_of_nothing_leaves_the_file(tmp_path: Path) -> None:
    from tensorbus._trace import run

    old = tmp_path / "trace.json"
    old.write_text("old")
    assert run(output=str(old), seconds=0, domain=str(tmp_path / "empty")) == 1
    assert old.read_text() == "old"


def test_a_domain_without_processes_is_an_error(
    elsewhere: Elsewhere, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tensorbus._trace import run

    output = tmp_path / "trace.json"
    assert run(output=str(output), seconds=0, domain=str(tmp_path / "empty")) == 1
    assert not output.exists()
    assert "there is no process in this domain" in capsys.readouterr().err
