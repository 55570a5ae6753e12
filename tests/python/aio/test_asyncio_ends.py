"""What is left when an event loop ends, or a wait in one, in any way."""

from __future__ import annotations

import asyncio
import gc
import os
import signal

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, tell
from support.loops import (
    Run,
    found,
    new_loop,
    next_of,
    open_files,
    runner,
    started,
    turns,
)


def test_a_loop_that_ends_leaves_no_descriptor(run: Run) -> None:
    async def main(publisher: tb.Publisher, subscriber: tb.AsyncSubscriber) -> None:
        receiving = await started(next_of(subscriber))
        forsaken = await started(subscriber.receive())
        publisher.publish(1)
        assert await receiving == 1
        with pytest.raises(tb.Timeout):
            await subscriber.receive(0)
        assert not forsaken.done()  # left to the end of the loop

    with found() as (publisher, subscriber):
        run(main(publisher, subscriber))
        before = open_files()
        for _ in range(50):
            run(main(publisher, subscriber))
            assert open_files() <= before  # those of earlier tests may go meanwhile


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_is_closed_over_its_tasks_leaves_no_descriptor(loop_kind: str) -> None:
    def close_over(publisher: tb.Publisher, subscriber: tb.AsyncSubscriber) -> None:
        loop = new_loop(loop_kind)
        loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending!"
        tasks = [
            loop.create_task(subscriber.receive()),
            loop.create_task(subscriber.receive(PATIENCE)),
            loop.create_task(subscriber.wait_for_publishers(2)),
        ]
        loop.run_until_complete(turns())
        loop.close()
        del tasks
        # It is none of their business any more, and they of nobody's.
        publisher.publish(1)
        sample = subscriber.try_receive()
        assert sample is not None
        assert subscriber.try_receive() is None

    with found() as (publisher, subscriber):
        close_over(publisher, subscriber)
        gc.collect()
        before = open_files()
        for _ in range(20):
            close_over(publisher, subscriber)
        gc.collect()
        assert open_files() <= before  # those of earlier tests may go meanwhile


def test_a_wait_without_a_descriptor_left_is_an_error_of_the_bus_and_loses_nothing(
    loop_kind: str, elsewhere: Elsewhere
) -> None:
    def run_out(kind: str) -> None:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

        async def main() -> None:
            async with tb.AsyncSubscriber("topic", timeout=PATIENCE) as subscriber:
                before = open_files()
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
                for wait in (subscriber.receive, subscriber.wait_for_publishers):
                    try:
                        await wait()
                    except tb.OutOfMemory as error:
                        tell("RLIMIT_NOFILE is 3" in str(error))
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                eventually(lambda: open_files() <= before)  # the bus has some for a moment
                with tb.Publisher("topic") as publisher:
                    assert await subscriber.wait_for_publishers(timeout=PATIENCE)
                    publisher.publish(7)
                    tell((await subscriber.receive()).data)

        runner(kind)(main())

    other = elsewhere.start(run_out, loop_kind)
    assert [other.hear() for _ in range(3)] == [True, True, 7]
    code, errors = other.end()
    # The bus's own thread may have looked for something meanwhile, and said why it could not: with
    # the limit as it is when it says so.
    assert code == 0
    assert not errors or "RLIMIT_NOFILE is" in errors


def test_ctrl_c_ends_the_loop(loop_kind: str, elsewhere: Elsewhere) -> None:
    def receive(kind: str) -> None:
        async def main() -> None:
            async with tb.AsyncSubscriber("topic") as subscriber:
                tell("ready")
                await subscriber.receive()

        try:
            runner(kind)(main())
        except KeyboardInterrupt:
            tell("interrupted")

    other = elsewhere.start(receive, loop_kind)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"


def test_a_child_that_leaves_a_wait_takes_nothing_from_its_parent(
    loop_kind: str, elsewhere: Elsewhere
) -> None:
    def fork_while_waiting(kind: str) -> None:
        async def main() -> None:
            with tb.Publisher("topic") as publisher:
                async with tb.AsyncSubscriber("topic") as subscriber:
                    assert publisher.wait_for_subscribers(timeout=PATIENCE)
                    receiving = asyncio.ensure_future(subscriber.receive())
                    for _ in range(3):
                        await asyncio.sleep(0)
                    child = os.fork()
                    if child == 0:
                        # As the child's garbage collector would.
                        receiving.get_coro().close()
                        os._exit(0)
                    assert os.waitpid(child, 0)[1] == 0
                    publisher.publish(7)
                    tell((await receiving).data)

        runner(kind)(main())

    other = elsewhere.start(fork_while_waiting, loop_kind)
    assert other.hear() == 7
