"""A node's subscribers report lost publishers and missed deadlines to functions."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell

TOPIC = "pulse"
MODES = ["async", "sync"]


def publish(count: int) -> None:
    publisher = tb.Publisher(TOPIC, history=10)
    assert publisher.wait_for_subscribers(timeout=PATIENCE)
    for number in range(count):
        publisher.publish(number)
    tell("published")
    hear()


class Seen:
    """What a node's callbacks were called with, in order."""

    def __init__(self, mode: Any, last: type) -> None:
        self.mode = mode
        self.all: list[Any] = []
        self._last = last
        self._calls = 0  # that have begun and not ended
        self.node = tb.Node("watcher")

    def note(self, event: Any) -> None:
        assert self._calls == 0  # never two callbacks at the same time
        self.all.append(event)
        if isinstance(event, self._last):
            self.node.stop()

    async def note_async(self, event: Any) -> None:
        self.note(event)
        self._calls += 1
        await asyncio.sleep(0.001)
        self._calls -= 1

    @property
    def callback(self) -> Any:
        return self.note_async if self.mode == "async" else self.note

    def on_sample(self, message: Any, header: Any) -> None:
        self.note(message)


def run(node: tb.Node, mode: Any) -> None:
    """Runs a node until it is stopped."""

    async def main() -> None:
        async with node:
            await asyncio.wait_for(node.run(), PATIENCE)

    if mode == "async":
        asyncio.run(main())
    else:
        with node:
            node.spin(PATIENCE)


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_a_lost_publisher_is_reported_after_its_last_sample(
    elsewhere: Elsewhere, mode: Any, killed: bool
) -> None:
    seen = Seen(mode, tb.PublisherLost)
    seen.node.create_subscriber(
        TOPIC, callback=seen.on_sample, mode=mode, on_publisher_lost=seen.callback
    )
    thread = threading.Thread(target=run, args=(seen.node, mode))
    thread.start()
    other = elsewhere.start(publish, 3)
    assert other.hear() == "published"
    if killed:
        other.kill()
    else:
        other.finish()
    thread.join(PATIENCE)
    assert seen.all[:3] == [0, 1, 2]
    assert [(each.pid, each.closed) for each in seen.all[3:]] == [(other.pid, not killed)]


@pytest.mark.parametrize("mode", MODES)
def test_a_missed_deadline_is_reported_and_counted(mode: Any) -> None:
    seen = Seen(mode, tb.DeadlineMissed)
    with tb.Publisher(TOPIC, history=1) as publisher:
        subscription = seen.node.create_subscriber(
            TOPIC,
            callback=seen.on_sample,
            mode=mode,
            expect_every=0.05,
            on_deadline_missed=seen.callback,
        )
        publisher.publish("only")
        assert subscription.deadlines_missed == 0
        run(seen.node, mode)
    assert seen.all[0] == "only"
    (event,) = seen.all[1:]
    assert event.missed == subscription.deadlines_missed == 1
    assert event.silence >= 0.05


@pytest.mark.parametrize("mode", MODES)
def test_a_publisher_that_never_comes_is_reported(mode: Any) -> None:
    seen = Seen(mode, tb.DeadlineMissed)
    subscription = seen.node.create_subscriber(
        TOPIC,
        callback=seen.on_sample,
        mode=mode,
        expect_every=0.01,
        expect_first=0.05,
        on_deadline_missed=seen.callback,
    )
    run(seen.node, mode)
    (event,) = seen.all
    assert event.first
    assert event.silence >= 0.05
    assert subscription.deadlines_missed >= 1


@pytest.mark.parametrize("mode", MODES)
def test_an_error_of_these_functions_is_reported_like_one_of_a_callback(
    elsewhere: Elsewhere, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    node = tb.Node("watcher")

    def fail(event: Any) -> None:
        if isinstance(event, tb.PublisherLost):
            node.stop()
        raise RuntimeError(type(event).__name__)

    node.create_subscriber(
        TOPIC,
        callback=lambda message, header: None,
        mode=mode,
        expect_every=0.01,
        on_deadline_missed=fail,
        on_publisher_lost=fail,
    )
    thread = threading.Thread(target=run, args=(node, mode))
    thread.start()
    other = elsewhere.start(publish, 1)
    assert other.hear() == "published"
    other.kill()
    thread.join(PATIENCE)
    said = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert "PublisherLost" in said
    assert set(said) <= {"PublisherLost", "DeadlineMissed"}


def test_a_subscriber_without_a_callback_reports_in_receive(elsewhere: Elsewhere) -> None:
    lost: list[tb.PublisherLost] = []

    async def on_lost(event: tb.PublisherLost) -> None:
        await asyncio.sleep(0)
        lost.append(event)

    async def main() -> None:
        async with tb.Node("watcher") as node:
            subscription = node.create_subscriber(TOPIC, on_publisher_lost=on_lost)
            other = await asyncio.to_thread(elsewhere.start, publish, 1)
            assert (await subscription.receive(PATIENCE)).data == 0
            await asyncio.to_thread(other.kill)
            with pytest.raises(tb.Timeout):
                await subscription.receive(0.3)
            assert [each.pid for each in lost] == [other.pid]

    asyncio.run(main())


def test_wrong_functions_are_refused() -> None:
    async def coroutine(event: object) -> None: ...

    with tb.Node("watcher") as node:
        for options, error in (
            ({"on_publisher_lost": coroutine, "mode": "sync"}, TypeError),
            ({"on_publisher_lost": lambda: None}, TypeError),
            ({"on_deadline_missed": print}, tb.InvalidArgument),
            ({"expect_every": 0}, tb.InvalidArgument),
        ):
            with pytest.raises(error):
                node.create_subscriber(TOPIC, callback=lambda message, header: None, **options)
