"""Messages with tensors on GPUs, and nodes and services that pass them on, over the stand-in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tensorbus as tb
from support.cuda.cuda_examples import Frame
from support.cuda.standin import ENVIRONMENT, Stream, filled, needs_standin, seen_in
from support.harness import PATIENCE, Elsewhere, hear, tell
from support.node_runs import becomes, running

pytestmark = needs_standin

BYTES = 1 << 16


def test_typed_messages_carry_them_anywhere_in_a_field(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        stream = Stream()
        with tb.Publisher("frames", Frame, history=1) as publisher:
            image, depth, more = (publisher.loan(BYTES, "uint8", device="cuda") for _ in range(3))
            for value, memory in enumerate([image, depth, more], 1):
                stream.write(memory, value)
            tags = {"more": [more, "text"], "image": image}
            publisher.publish(Frame(image, depth, tags), stream=stream)
            tell(publisher.stats["bytes_copied"])
            hear()

    publisher = elsewhere.start(publish, env=ENVIRONMENT)
    assert publisher.hear() == 0

    def receive() -> None:
        stream = Stream()
        with tb.Subscriber("frames", Frame, timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            sample.use_on(stream)
            frame = sample.data
            assert type(frame) is Frame
            found = [seen_in(each) for each in (frame.image, frame.depth)]
            assert found == [{1}, {2}]
            assert seen_in(frame.tags["more"][0]) == {3}
            assert frame.tags["more"][1] == "text"

    elsewhere.run(receive, env=ENVIRONMENT)
    publisher.tell()


def test_standard_messages_of_anything_carry_them_and_those_of_arrays_say_what_they_want(
    elsewhere: Elsewhere,
) -> None:
    def both() -> None:
        stream = Stream()
        memory = filled(tb.empty(BYTES, "uint8", device="cuda"), 5)
        for message in (tb.DictMessage({"x": memory}), tb.ListMessage([memory])):
            with tb.Publisher(type(message).__name__, type(message), history=1) as publisher:
                publisher.publish(message, stream=stream)
                with tb.Subscriber(
                    type(message).__name__, type(message), timeout=PATIENCE
                ) as subscriber:
                    sample = subscriber.receive()
                    inside = sample.data.data
                    got = inside["x"] if isinstance(inside, dict) else inside[0]
                    sample.use_on(stream)
                    assert seen_in(got) == {5}
        with (
            tb.Publisher("arrays", tb.ArrayMessage) as publisher,
            pytest.raises(tb.MessageError, match=r"expected array, got tensorbus.*Memory"),
        ):
            publisher.publish(tb.ArrayMessage(memory))

    elsewhere.run(both, env=ENVIRONMENT)


def serve_sums(mode: Any) -> None:
    """Answers with a tensor on the GPU whose bytes are those of the request and one more."""

    def more(request: dict[str, Any]) -> dict[str, Any]:
        (value,) = seen_in(request["x"])
        answer = tb.empty(BYTES, "uint8", device="cuda")
        return {"x": filled(answer, value + 1), "request": request["x"]}

    async def main() -> None:
        async with tb.Node("server") as node:
            node.create_service("more", callback=more)
            await node.run()

    if mode == "async":
        tb.run(main())
    with tb.Node("server") as node:
        node.create_service("more", callback=more, mode="sync")
        node.spin()


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_services_have_them_both_ways_and_return_what_they_were_sent(
    elsewhere: Elsewhere, mode: str
) -> None:
    def ask() -> None:
        memory = filled(tb.empty(BYTES, "uint8", device="cuda"), 1)
        with tb.Client("more", timeout=PATIENCE) as client:
            for value in range(2, 12):
                reply = client.call_sync({"x": memory})
                assert seen_in(reply["x"]) == {value}
                assert seen_in(reply["request"]) == {value - 1}
                memory = reply["x"]
            reply = asyncio.run(client.call_async({"x": memory}))
            assert seen_in(reply["x"]) == {12}
        tell("done")

    server = elsewhere.start(serve_sums, mode, env=ENVIRONMENT)
    assert elsewhere.start(ask, env=ENVIRONMENT).hear() == "done"
    server.kill()


def test_callbacks_of_nodes_get_them_and_publish_them_onwards(elsewhere: Elsewhere) -> None:
    def relay() -> None:
        async def main() -> None:
            async with tb.Node("relay") as node:
                out = node.create_publisher("out", history=2)
                node.create_subscriber("in", callback=lambda m, h: out.publish(m))
                tell("ready")
                await node.run()

        tb.run(main())

    def end() -> None:
        async def main() -> None:
            got: list[set[int]] = []
            async with tb.Node("end") as node:
                node.create_subscriber("out", callback=lambda m, h: got.append(seen_in(m)))
                async with running(node):
                    await becomes(lambda: len(got) == 2)
            tell(got)

        tb.run(main())

    middle = elsewhere.start(relay, env=ENVIRONMENT)
    assert middle.hear() == "ready"

    def begin() -> None:
        with tb.Publisher("in", history=2) as publisher:
            for value in (3, 4):
                loan = publisher.loan(BYTES, "uint8", device="cuda")
                publisher.publish(filled(loan, value))
                del loan
            hear()

    first = elsewhere.start(begin, env=ENVIRONMENT)
    assert elsewhere.start(end, env=ENVIRONMENT).hear() == [{3}, {4}]
    first.tell()
    middle.kill()
