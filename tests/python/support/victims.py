"""What is killed by the test of kills: programs that use the bus in every form, for ever.

They are forked by a server that has imported PyTorch and Tensorbus and uses neither, so that a
victim costs milliseconds.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

import tensorbus as tb
from support.harness import hear, tell

FORMS = ("torch", "numpy", "message", "loan", "torch loan", "large", "text")


def publish(publisher: tb.Publisher, form: str, number: int) -> None:
    """A message in which every number is the same."""
    import torch

    data: Any
    if form == "torch":
        data = torch.full((1000,), number)
    elif form == "numpy":
        data = np.full(1000, number)
    elif form == "message":
        inner = [np.full(2000, number), (torch.full((7,), number), np.int32(number))]
        data = {"number": number, "tensor": torch.full((3, 500), number), "list": inner}
    elif form == "large":
        data = torch.full((1 << 17,), number)
    elif form == "text":
        data = {"number": number, "text": "x" * 100}
    else:
        data = publisher.loan(5000, dtype=torch.int64 if form == "torch loan" else "int64")
        data[:] = number
    publisher.publish(data)


def numbers_in(data: Any) -> set[int]:
    if isinstance(data, dict | list | tuple):
        parts = data.values() if isinstance(data, dict) else data
        return set().union(*map(numbers_in, parts))
    if isinstance(data, str):
        return set()
    return {int(data.min()), int(data.max())} if hasattr(data, "min") else {int(data)}


def check(sample: tb.Sample) -> None:
    assert len(numbers_in(sample.data)) == 1, sample


def publish_anything(chance: random.Random) -> None:
    reliable = chance.random() < 0.5
    with tb.Publisher("up", depth=4, reliable=reliable, history=chance.randrange(3)) as publisher:
        for number in itertools.count():
            publish(publisher, chance.choice(FORMS), number)


def take_loans(chance: random.Random) -> None:
    with tb.Publisher("up") as publisher:
        held: deque[Any] = deque(maxlen=20)
        for number in itertools.count():
            loan = publisher.loan(chance.randrange(100_000), "int64")
            loan[:] = number
            held.append(loan)
            if chance.random() < 0.3:
                publisher.publish(held.pop())


def receive_and_hold(chance: random.Random) -> None:
    held: deque[tb.Sample] = deque(maxlen=chance.randrange(1, 20))
    topic = chance.choice(["down", "down/reliable"])
    for sample in tb.Subscriber(topic, depth=chance.randrange(20)):
        check(sample)
        held.append(sample.copy() if chance.random() < 0.2 else sample)
        check(chance.choice(held))


def write_in_private(chance: random.Random) -> None:
    held: deque[Any] = deque(maxlen=5)
    for sample in tb.Subscriber("down", access="private"):
        check(sample)
        if hasattr(sample.data, "min"):
            sample.data[:] = 7
            assert int(sample.data.min()) == 7
            held.append(sample.data[3:])


def write_to_shared(chance: random.Random) -> None:
    for sample in tb.Subscriber("down/shared", access="shared"):
        sample.data[:] = chance.randrange(100)


def send_back(chance: random.Random) -> None:
    with tb.Publisher("up", reliable=True) as publisher:
        for sample in tb.Subscriber("down/reliable"):
            check(sample)
            publisher.publish(sample.data)


def wait_for_several(chance: random.Random) -> None:
    subscribers = [tb.Subscriber(topic) for topic in ("down", "down/reliable")]
    while True:
        for subscriber in tb.wait_any(subscribers):
            check(subscriber.receive())


def receive_in_a_loop(chance: random.Random) -> None:
    async def watch(topic: str) -> None:
        async with tb.AsyncSubscriber(topic) as subscriber:
            async for sample in subscriber:
                check(sample)

    async def main() -> None:
        await asyncio.gather(watch("down"), watch("down/reliable"), watch("down"))

    asyncio.run(main())


def come_and_go(chance: random.Random) -> None:
    while True:
        with tb.Publisher("up", history=1) as publisher, tb.Subscriber("down") as subscriber:
            publish(publisher, chance.choice(FORMS), 1)
            with suppress(tb.Timeout):
                check(subscriber.receive(0.001))


VICTIMS: list[Callable[[random.Random], None]] = [
    publish_anything,
    take_loans,
    receive_and_hold,
    write_in_private,
    write_to_shared,
    send_back,
    wait_for_several,
    receive_in_a_loop,
    come_and_go,
]


def serve() -> None:
    """Forks and kills victims for the survivor."""
    import torch

    torch.set_num_threads(1)
    living: set[int] = set()
    tell("ready")
    try:
        while True:
            command, argument = hear()
            if command == "fork":
                child = os.fork()
                if child == 0:
                    be_a_victim(*argument)
                living.add(child)
                tell(child)
            else:
                os.kill(argument, signal.SIGKILL)
                living.remove(argument)
                tell(os.waitstatus_to_exitcode(os.waitpid(argument, 0)[1]))
    finally:
        for child in living:
            os.kill(child, signal.SIGKILL)


def be_a_victim(kind: int, seed: int) -> None:
    try:
        VICTIMS[kind](random.Random(seed))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
