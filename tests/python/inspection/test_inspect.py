"""`inspect`: what it says is what the processes know of themselves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, in_a_fork, joined, tell


def report_of(pid: int, timeout: float = PATIENCE) -> tb.ParticipantReport:
    """What the only participant of a process says."""
    (report,) = (one for one in tb.inspect(timeout=timeout).participants if one.pid == pid)
    return report


def own_report() -> tb.ParticipantReport:
    return report_of(os.getpid())


def hold_samples() -> None:
    with tb.Subscriber("topic", depth=10, max_held=5, node="viewer") as subscriber:
        held = [subscriber.receive(timeout=PATIENCE) for _ in range(3)]
        tell(tb.participant().id)
        while (word := hear()) != "end":
            if word == "release":
                del held[0]
            tell(len(held))


def test_a_publisher_knows_its_subscribers_in_other_processes(elsewhere: Elsewhere) -> None:
    with tb.Publisher("topic", depth=4, history=3, node="camera") as publisher:
        arrays = [publisher.publish(np.zeros(1000)) for _ in range(3)]
        assert arrays == [0, 0, 0]
        reader = elsewhere.start(hold_samples)
        name = reader.hear()
        first_seen = time.time_ns()
        publisher.publish(np.zeros(1000))
        report = own_report()
        (said,) = report.publishers
        assert (said.topic, said.node, said.depth, said.history) == ("topic", "camera", 4, 3)
        assert said.stats == publisher.stats
        assert said.bytes_sent == 4 * 8000
        (link,) = said.links
        assert link.subscriber == tb.PeerName(name, reader.pid, "hold_samples_0.py")
        assert (link.node, link.depth, link.max_held) == ("viewer", 10, 5)
        assert (link.delivered, link.waiting, link.held) == (4, 1, 3)
        assert link.held_bytes == publisher.stats.bytes_in_flight
        assert link.oldest_held_ns > time.time_ns() - first_seen
        assert report.memory is not None
        (lent,) = report.memory.lent
        assert (lent.peer, lent.leases, lent.bytes) == (link.subscriber, 4, link.held_bytes)
        reader.tell("release")
        assert reader.hear() == 2
        (link,) = own_report().publishers[0].links
        assert (link.waiting, link.held) == (1, 2)
        reader.tell("end")
        reader.finish()


def test_a_subscriber_says_what_its_process_knows(elsewhere: Elsewhere) -> None:
    with tb.Publisher("topic", history=3) as publisher:
        for number in range(3):
            publisher.publish(np.full(1000, number))
        reader = elsewhere.start(hold_samples)
        reader.hear()
        report = report_of(reader.pid)
        assert report.process == "hold_samples_0.py"
        (said,) = report.subscribers
        assert (said.topic, said.node, said.depth) == ("topic", "viewer", 10)
        assert (said.stats.received, said.stats.held, said.stats.publishers) == (3, 3, 1)
        assert said.publishers == (f"{tb.participant().id}.1",)
        assert report.memory is not None
        (borrowed,) = report.memory.borrowed
        assert borrowed.peer.participant == tb.participant().id
        assert (borrowed.segments, borrowed.leases) == (1, 3)
        reader.tell("end")
        reader.finish()


def test_what_a_node_makes_has_its_name() -> None:
    async def main() -> None:
        node = tb.Node("camera")
        node.create_publisher("out")
        node.create_subscriber("in")
        report = own_report()
        assert report.nodes == ("camera",)
        assert [said.node for said in report.publishers] == ["camera"]
        assert [said.node for said in report.subscribers] == ["camera"]
        await node.close()

    asyncio.run(main())


def use_queue() -> None:
    queue = tb.Queue.open("jobs", timeout=PATIENCE)
    queue.get(timeout=PATIENCE)
    tell("got")
    hear()


def test_a_queue_says_what_it_has_and_who_has_its_items(elsewhere: Elsewhere) -> None:
    with tb.Queue(name="jobs", maxsize=3, redeliver=True) as queue:
        for number in range(3):
            queue.put(number)
        worker = elsewhere.start(use_queue)
        assert worker.hear() == "got"
        (said,) = own_report().queues
        assert said.stats == queue.stats
        assert (said.name, said.maxsize, said.redeliver) == ("jobs", 3, True)
        assert (said.stats.items, said.in_hand, said.redelivered) == (queue.qsize(), 1, 0)
        (client,) = said.clients
        assert (client.client.pid, client.in_hand) == (worker.pid, 1)
        worker.kill()
        eventually(lambda: own_report().queues[0].redelivered == 1)
        (said,) = own_report().queues
        assert (said.stats.items, said.in_hand, said.clients) == (3, 0, ())
        queue.close()


def answer_nothing() -> None:
    with tb.Node("camera") as node:
        node.create_publisher("a/b")
        tell("ready")
        hear()


def test_a_stopped_process_is_said_to_be_so_within_the_time_out(elsewhere: Elsewhere) -> None:
    with tb.Publisher("here"):
        other = elsewhere.start(answer_nothing)
        assert other.hear() == "ready"
        other.stop()
        try:
            before = time.monotonic()
            found = tb.inspect(timeout=0.3)
            assert 0.3 <= time.monotonic() - before < PATIENCE
        finally:
            other.signal(signal.SIGCONT)
        stopped = next(one for one in found.participants if one.pid == other.pid)
        assert stopped.error == "no answer within 0.3 s: the process is stopped"
        assert (stopped.nodes, stopped.topics) == (("camera",), ("a/b",))
        assert (stopped.publishers, stopped.memory) == ((), None)
        assert stopped.process == "answer_nothing_0.py"
        well = next(one for one in found.participants if one.pid == os.getpid())
        assert (well.error, well.topics) == ("", ("here",))
        assert report_of(other.pid).error == ""
        other.tell()
        other.finish()


class Enough(Exception):
    pass


def enough(*_: object) -> None:
    raise Enough


def test_a_signal_handler_that_raises_ends_the_wait(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(answer_nothing)
    assert other.hear() == "ready"
    other.stop()
    before = signal.signal(signal.SIGALRM, enough)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Enough):
            tb.inspect(timeout=PATIENCE)
    finally:
        signal.signal(signal.SIGALRM, before)
        other.kill()


def test_a_killed_process_is_not_listed(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(answer_nothing)
    assert other.hear() == "ready"
    assert len(tb.inspect(timeout=PATIENCE).participants) == 1
    other.kill()
    assert tb.inspect(timeout=PATIENCE).participants == ()


def test_a_forked_child_asks_and_is_not_taken_for_its_parent() -> None:
    with tb.Publisher("topic"):
        parent = os.getpid()

        def ask() -> None:
            assert [one.pid for one in tb.inspect(timeout=PATIENCE).participants] == [parent]
            with tb.Publisher("mine"):
                assert own_report().topics == ("mine",)
                assert report_of(parent).topics == ("topic",)

        in_a_fork(ask)


def test_what_a_child_inherited_is_counted() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(np.zeros(1000))
        sample = subscriber.receive()
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(ready, 1)
            os._exit(0)
        del sample
        eventually(lambda: publisher.stats.bytes_in_flight == 0)
        memory = own_report().memory
        assert memory is not None
        assert memory.inherited_bytes == tb.participant().arena["inherited_bytes"] > 0
        os.write(told, b"x")
        os.waitpid(child, 0)
        os.close(ready)
        os.close(told)


def test_written_pages_are_counted() -> None:
    with joined(subscriber={"access": "private"}) as (publisher, subscriber):
        publisher.publish(np.zeros(100_000))
        data = subscriber.receive().data
        data[:] = 1
        memory = own_report().memory
        assert memory is not None
        assert memory.private_bytes == tb.participant().arena["private_bytes"]


def test_shares_are_listed() -> None:
    shared = tb.share(np.zeros(1000), uses=2)
    (said,) = own_report().shares
    assert (said.bytes, said.uses_left) == (tb.participant().arena["used_bytes"], 2)
    assert said.age_ns > 0
    tb.attach(shared.handle)
    assert own_report().shares[0].uses_left == 1
    shared.close()
    assert own_report().shares == ()


def test_every_field_of_every_report_is_there() -> None:
    with joined() as (publisher, subscriber), tb.Queue() as queue:
        queue.put(1)
        queue.get()
        publisher.publish(np.zeros(10))
        sample = subscriber.receive()
        shared = tb.share(np.zeros(10))
        found = tb.inspect(timeout=PATIENCE)
        missing = []

        def look(report: object) -> None:
            if isinstance(report, tuple):
                for part in report:
                    look(part)
            elif dataclasses.is_dataclass(report):
                names = {field.name for field in dataclasses.fields(report)}
                missing.extend(names.symmetric_difference(vars(report)))
                for value in vars(report).values():
                    look(value)

        look(found)
        assert missing == []
        assert hash(found.participants[0].nodes) == hash(())
        with pytest.raises(dataclasses.FrozenInstanceError):
            found.domain = ""  # type: ignore[misc]
        del sample, shared


def test_where_there_is_no_domain_nobody_is_listed_and_nothing_is_made(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert tb.inspect(str(nowhere)).participants == ()
    assert not nowhere.exists()


def test_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(tb.AccessDenied):
        tb.inspect(str(tmp_path))


def ask_as_another_user(domain: str, sockets: list[str]) -> None:
    assert tb.inspect(domain).participants
    os.setuid(65534)
    with pytest.raises(tb.AccessDenied) as refused:
        tb.inspect(domain)
    tell(f"{refused.value}")
    for name in sockets:
        with contextlib.suppress(PermissionError), socket.socket(socket.AF_UNIX) as line:
            line.connect(name)
            tell("it is connected")


def publish_elsewhere(domain: str) -> None:
    with tb.Publisher("topic", domain=domain):
        tell([str(path) for path in Path(domain).iterdir() if path.is_socket()])
        hear()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_may_not_ask(elsewhere: Elsewhere) -> None:
    with tempfile.TemporaryDirectory() as folder:  # that of a test may be root's alone
        os.chmod(folder, 0o755)
        domain = f"{folder}/domain"
        publishing = elsewhere.start(publish_elsewhere, domain)
        sockets = publishing.hear()
        assert sockets
        other = elsewhere.start(ask_as_another_user, domain, sockets)
        assert f"{domain} belongs to uid 0" in other.hear()
        other.finish()
        publishing.tell()
        publishing.finish()


def test_many_threads_ask_while_participants_come_and_go(elsewhere: Elsewhere) -> None:
    failures: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            for report in tb.inspect(timeout=PATIENCE).participants:
                if report.error:
                    failures.append(report.error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        other = elsewhere.start(answer_nothing)
        assert other.hear() == "ready"
        other.tell()
        other.finish()
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_thousand_topics_take_well_under_a_second() -> None:
    publishers = [tb.Publisher(f"topic/{number}") for number in range(1000)]
    times = []
    for _ in range(5):
        before = time.monotonic()
        assert len(own_report().publishers) == 1000
        times.append(time.monotonic() - before)
    assert min(times) < 0.5
    assert len(publishers) == 1000


@pytest.mark.parametrize("timeout", [float("inf"), float("nan"), None])
def test_a_time_out_without_an_end_is_refused(timeout: float) -> None:
    with pytest.raises(tb.InvalidArgument):
        tb.inspect(timeout=timeout)


def test_rates_are_those_of_the_time_between() -> None:
    with tb.Publisher("topic") as publisher:
        before = tb.inspect()
        for _ in range(10):
            publisher.publish(np.zeros(100))
        after = tb.inspect()
        ages = [inspection.participants[0].age_ns for inspection in (before, after)]
        seconds = (ages[1] - ages[0]) / 1e9
        (rate,) = tb.rates(before, after)
        assert rate.hz == pytest.approx(10 / seconds)
        assert rate.bytes_per_second == pytest.approx(8000 / seconds)
        assert rate.publisher.topic == "topic"
