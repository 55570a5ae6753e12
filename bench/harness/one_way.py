"""One way through a peer: a forked sender and a forked receiver, each on a core of its own."""

from __future__ import annotations

import gc
import mmap
import multiprocessing.connection
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from harness.cores import core_pair, pin_to
from harness.figures import latency_figures
from harness.other_process import die_with_parent, fork
from peers.peer import PATIENCE, Peer

PAGE = 4096
WARM_UP = 3  # messages, of each size
LEAST = 5  # messages
MOST = 10_000
WINDOW = 2  # messages on their way in a stream
LAST = (1 << 64) - 1  # the number that ends a row
ASLEEP_AFTER = 0.0003  # seconds: the receiver sleeps again
POLLED_AFTER_NS = 2_000

now = time.perf_counter_ns


@dataclass(frozen=True)
class Pace:
    """How long a row goes on."""

    seconds: float
    most: int = MOST - 2 * WARM_UP  # messages
    least: int = LEAST  # messages, however long they take


class Stage:
    """What both share beside the peer: when the receiver had what, and the word that it is done."""

    def __init__(self) -> None:
        memory = mmap.mmap(-1, 8 * 4 * (MOST + 1))
        self.words = memoryview(memory).cast("Q")
        self.event = os.eventfd(0)

    def answer(self, number: int, stamps: tuple[int, int, int], polls: bool) -> None:
        at = 4 * (number % MOST)
        self.words[at + 1], self.words[at + 2], self.words[at + 3] = stamps
        self.words[0] = number
        if not polls:
            os.eventfd_write(self.event, 1)

    def wait_for(self, number: int, polls: bool) -> None:
        """Until the receiver has done so many; asleep, where it sleeps, too."""
        while self.words[0] < number:
            if not polls:
                os.eventfd_read(self.event)

    def stamps(self, number: int, polls: bool) -> tuple[int, int, int]:
        """Of the receiver: the tensor in hand, a byte of each page read; how long a release took.

        Waits for them, asleep where the receiver sleeps: other threads of the sender may be what
        sends.
        """
        self.wait_for(number, polls)
        at = 4 * (number % MOST)
        return self.words[at + 1], self.words[at + 2], self.words[at + 3]


@dataclass
class Times:
    """Of the messages of one row, in nanoseconds."""

    one_way: list[int]
    read: list[int]
    loan: list[int]
    send: list[int]
    release: list[int]

    def figures(self) -> dict[str, float]:
        return {
            **latency_figures(self.one_way),
            "read_ns": median(self.read),
            "loan_ns": median(self.loan),
            "send_ns": median(self.send),
            "release_ns": median(self.release),
            "messages": len(self.one_way),
        }


def send_row(peer: Peer, stage: Stage, size: int, pace: Pace) -> dict[str, float]:
    """As many messages as the pace allows, one at a time."""
    times = Times([], [], [], [], [])
    source = peer.make(size)
    until = time.monotonic() + 60 * PATIENCE  # of the warm-up
    number = 0
    while True:
        number += 1
        if number == WARM_UP + 1:
            until = time.monotonic() + pace.seconds
        ends = number > WARM_UP + pace.least and (
            time.monotonic() > until or number > WARM_UP + pace.most
        )
        if peer.fresh:
            source = peer.make(size)
        pause(peer, number)
        begin = now()
        message = peer.loan(source)
        lent = now() - begin
        peer.fill(message, (LAST if ends else number).to_bytes(8, "little"))
        begin = now()
        peer.send(message)
        sent = now() - begin
        del message
        there, read, release = stage.stamps(number, peer.polls) if peer.receives else peer.answer()
        if ends:
            return times.figures()
        if number > WARM_UP:
            times.one_way.append(there - begin + lent)
            times.read.append(read - begin + lent)
            times.loan.append(lent)
            times.send.append(sent)
            times.release.append(release)


def send_stream(peer: Peer, stage: Stage, size: int, pace: Pace) -> dict[str, float]:
    """As fast as they go, with two on their way; the receiver reads a byte of each page."""
    source = peer.make(size)
    begin = time.monotonic()
    number = 0
    ends = False
    while not ends:
        number += 1
        if number == WARM_UP + 1:
            begin = time.monotonic()
        ends = number > WARM_UP + pace.least and time.monotonic() - begin > pace.seconds
        if peer.fresh:
            source = peer.make(size)
        message = peer.loan(source)
        peer.fill(message, (LAST if ends else number).to_bytes(8, "little"))
        peer.send(message)
        del message
        stage.wait_for(number - WINDOW + 1, peer.polls)
    stage.wait_for(number, peer.polls)
    per_second = (number - WARM_UP) / (time.monotonic() - begin)
    return {"per_second": per_second, "bytes_per_second": per_second * size}


def pause(peer: Peer, number: int) -> None:
    """Spread out, so that no period of the machine's falls in step with ours."""
    if peer.polls:
        until = now() + POLLED_AFTER_NS + number % 13 * (POLLED_AFTER_NS // 16)
        while now() < until:
            pass
    else:
        time.sleep(ASLEEP_AFTER)


def receive_row(peer: Peer, stage: Stage) -> None:
    """Until the message that is the last one."""
    expected = 0
    while True:
        expected += 1
        while (tensor := peer.receive()) is None:
            pass
        there = now()
        int(tensor[::PAGE].sum())
        read = now()
        number = int.from_bytes(tensor[:8].numpy(), "little")
        dropping = now()
        del tensor
        peer.release()
        released = now()
        stage.answer(expected, (there, read, released - dropping), peer.polls)
        if number == LAST:
            return
        if number != expected:
            raise RuntimeError(f"message {number} came instead of {expected}")


def be_sender(peer: Peer, stage: Stage, sizes: list[int], pace: Pace, link: Connection) -> None:
    peer.open_sender()
    for size in sizes:
        figures = send_row(peer, stage, size, pace)
        if peer.streams:
            stage.words[0] = 0
            figures |= send_stream(peer, stage, size, pace)
        stage.words[0] = 0
        link.send((size, figures))
    leave(peer, link)


def be_receiver(peer: Peer, stage: Stage, sizes: list[int], pace: Pace, link: Connection) -> None:
    peer.open_receiver()
    for _ in sizes:
        receive_row(peer, stage)
        if peer.streams:
            receive_row(peer, stage)
    leave(peer, link)


def leave(peer: Peer, link: Connection) -> None:
    """Neither closes its end before the other is done."""
    link.send(None)
    link.recv()
    peer.close()


def run(core: int, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    """A forked process: quiet, on its core, and telling what it fails of."""
    die_with_parent()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of tensors over what is read-only
    pin_to(core)
    gc.collect()
    gc.freeze()
    gc.disable()
    link = args[-1]
    try:
        work(*args)
    except BaseException as error:
        link.send(RuntimeError(f"{type(error).__name__}: {error}"))


class Failed(Exception):
    """A peer does not do what it should; the message says what came instead."""


def measure(
    kind: type[Peer], sizes: list[int], pace: Pace, patience: float = PATIENCE
) -> dict[int, dict[str, float]]:
    """The figures of a peer at each of the sizes, measured in two new processes."""
    cores = core_pair()
    with TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as folder:
        peer, stage = kind(Path(folder)), Stage()
        ends = [(be_sender, cores.sender)]
        if kind.receives:
            ends.append((be_receiver, cores.receiver))
        links, processes = [], []
        for work, core in ends:
            ours, theirs = fork.Pipe()
            process = fork.Process(
                target=run, args=(core, work, (peer, stage, sizes, pace, theirs))
            )
            process.start()
            theirs.close()  # so that its end is heard when it dies
            links.append(ours)
            processes.append(process)
        try:
            figures = heard(links, patience)
            for link in links:
                link.send(None)
            for process in processes:
                process.join(PATIENCE)
        finally:
            for process in processes:
                process.kill()
                process.join()
    return figures


def heard(links: list[Connection], patience: float) -> dict[int, dict[str, float]]:
    """What the sender tells, until all are done."""
    figures: dict[int, dict[str, float]] = {}
    waiting = list(links)
    while waiting:
        ready = multiprocessing.connection.wait(waiting, patience)
        if not ready:
            raise Failed(f"nothing came for {patience:.0f} s")
        for link in ready:
            assert isinstance(link, Connection)
            try:
                told = link.recv()
            except EOFError:
                raise Failed("a process of it died") from None
            if isinstance(told, Exception):
                raise Failed(str(told))
            if told is None:
                waiting.remove(link)
            else:
                size, row = told
                figures[size] = row
    return figures
