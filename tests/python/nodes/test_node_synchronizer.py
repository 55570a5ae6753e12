"""Callbacks of nodes for the samples of several topics."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.loops import Run
from support.node_runs import becomes, connected, running


def publish(publisher: tb.Publisher, *stamps: float) -> None:
    for stamp in stamps:
        publisher.publish({"stamp": stamp})


def test_a_callback_of_either_kind_gets_a_sample_of_each_topic(run: Run) -> None:
    async def main() -> None:
        got = []

        def plain(left: tb.Sample, right: tb.Sample) -> None:
            got.append((left.data["stamp"], right.data["stamp"]))

        async def awaited(left: tb.Sample, right: tb.Sample) -> None:
            plain(left, right)

        async with tb.Node("node") as node:
            options: Any = {"tolerance": 0, "time": "stamp"}
            sets = node.create_synchronizer(["l", "r"], plain, **options)
            node.create_synchronizer({"l": None, "r": None}, awaited, **options)
            node.create_synchronizer(["l", "r"], plain, mode="sync", **options)
            assert node.subscribers == ["l", "r"]
            left, right = (connected(node.create_publisher(topic), 3) for topic in "lr")
            async with running(node):
                publish(left, 1, 2, 3)
                publish(right, 1, 3)
                await becomes(lambda: len(got) == 6)
            assert sorted(got) == [(1, 1)] * 3 + [(3, 3)] * 3
            assert (sets.stats.sets, sets.stats.unmatched) == (2, (1, 0))

    run(main())


def test_a_node_with_threads_alone_spins_until_it_is_stopped() -> None:
    got = []

    def on_set(left: tb.Sample, right: tb.Sample) -> None:
        got.append(left.data["stamp"])
        if len(got) == 2:
            node.stop()

    with tb.Node("node") as node:
        sets = node.create_synchronizer(["l", "r"], on_set, tolerance=0, time="stamp", mode="sync")
        for topic in ("l", "r"):
            publish(connected(node.create_publisher(topic)), 1, 2)
        assert node.spin(PATIENCE)
        assert got == [1, 2]
    with pytest.raises(tb.Closed):
        sets.receive()


def test_an_error_is_reported_and_the_sets_go_on(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        got = []

        def fails_once(left: tb.Sample, right: tb.Sample) -> None:
            got.append(left.data["stamp"])
            if len(got) == 1:
                raise ValueError("the first")

        async with tb.Node("node") as node:
            node.create_synchronizer(["l", "r"], fails_once, tolerance=0, time="stamp")
            left, right = (connected(node.create_publisher(topic)) for topic in "lr")
            async with running(node):
                left.publish({"id": 7})
                publish(left, 1, 2)
                publish(right, 1, 2)
                await becomes(lambda: got == [1, 2])

    with caplog.at_level(logging.ERROR, "tensorbus.node"):
        run(main())
    assert len(caplog.messages) == 2
    assert "without the field 'stamp'" in caplog.messages[0]
    assert "the first" in caplog.messages[1]
    assert all("topics 'l', 'r'" in text for text in caplog.messages)


def test_wrong_arguments_are_refused() -> None:
    with tb.Node("node") as node:
        with pytest.raises(TypeError, match="expected several"):
            node.create_synchronizer("left", print, tolerance=0)
        with pytest.raises(TypeError, match=r"cannot be called as callback\(left, right\)"):
            node.create_synchronizer(["left", "right"], lambda left: None, tolerance=0)
        with pytest.raises(TypeError, match="queue_size="):
            node.create_synchronizer(["a", "b"], print, tolerance=0, depth=3)  # type: ignore[call-arg]
        with pytest.raises(tb.InvalidArgument, match="at least two"):
            node.create_synchronizer(["left"], print, tolerance=0)
        assert node.subscribers == []
