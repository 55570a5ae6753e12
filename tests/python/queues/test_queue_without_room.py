"""Queues of a process that has no descriptor for another connection: a shortage is no end."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, Elsewhere, hear, tell
from support.shortage import Refusals, limit_descriptors, no_descriptor_left

pytestmark = pytest.mark.skipif(SANITIZED, reason="its allocator cannot be forked beside threads")

MOST = 128
SOON = 1.0
CALLS = [
    "get",
    "get_nowait",
    "get_many",
    "iterate",
    "get_async",
    "put",
    "put_nowait",
    "put_many",
    "put_async",
    "qsize",
    "join",
    "shutdown",
    "open",
]


def ask(jobs: Any, call: str) -> Any:
    """A call of a process that has not used the queue before."""
    match call:
        case "get":
            return jobs.get(timeout=SOON)
        case "get_many":
            return jobs.get_many(2, timeout=SOON)
        case "iterate":
            return list(jobs)
        case "get_async":
            return asyncio.run(jobs.get_async())
        case "put":
            return jobs.put(1, timeout=SOON)
        case "put_nowait":
            return jobs.put_nowait(1)
        case "put_many":
            return jobs.put_many([1, 2], timeout=SOON)
        case "put_async":
            return asyncio.run(jobs.put_async(1))
        case "join":
            return jobs.join(timeout=SOON)
        case "open":
            return tb.Queue.open("jobs", timeout=SOON)
        case _:
            return getattr(jobs, call)()


def outcome_of(jobs: Any, call: str) -> str:
    try:
        return f"returned {ask(jobs, call)!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def in_a_child(jobs: Any, call: str) -> tuple[int, int]:
    """Forks a child that calls when its descriptor can be read: that, and that of its outcome."""
    there, go = os.pipe()
    outcome, back = os.pipe()
    if os.fork() == 0:
        os.read(there, 1)
        os.write(back, outcome_of(jobs, call).encode())
        os._exit(0)
    os.close(there)
    os.close(back)
    return go, outcome


def calls_while_full(call: str) -> None:
    refusals = Refusals()
    limit_descriptors(MOST)
    jobs: tb.Queue[Any] = tb.Queue(name="jobs")
    jobs.put("first")
    go, outcome = in_a_child(jobs, call)
    with no_descriptor_left():
        os.write(go, b"x")
        tell(os.read(outcome, 4096).decode())
    assert refusals.heard.wait(PATIENCE)
    assert jobs.get(timeout=PATIENCE) == "first"


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_finds_no_room_names_the_limit_and_is_no_end(
    elsewhere: Elsewhere, call: str
) -> None:
    outcome = elsewhere.start(calls_while_full, call).hear()
    assert outcome.startswith("OutOfMemory: "), outcome
    assert f"RLIMIT_NOFILE is {MOST}" in outcome


def calls_until_there_is_room(call: str) -> None:
    refusals = Refusals()
    limit_descriptors(MOST)
    jobs: tb.Queue[Any] = tb.Queue(name="jobs")
    jobs.put("first")
    go, outcome = in_a_child(jobs, call)
    with no_descriptor_left():
        os.write(go, b"x")
        assert refusals.heard.wait(PATIENCE)
    tell(os.read(outcome, 4096).decode())


@pytest.mark.parametrize("call", ["get_async", "put_async", "qsize"])
def test_a_call_that_waits_is_done_once_when_there_is_room(elsewhere: Elsewhere, call: str) -> None:
    results = {"get_async": "'first'", "put_async": "None", "qsize": "1"}
    other = elsewhere.start(calls_until_there_is_room, call)
    assert other.hear() == f"returned {results[call]}"


def calls_without_a_descriptor_of_its_own(call: str) -> None:
    jobs = tb.Queue.open("jobs", timeout=PATIENCE)
    limit_descriptors(MOST)

    def child() -> None:
        Refusals()
        tb.participant()
        with no_descriptor_left():
            tell(outcome_of(jobs, call))

    child_of = os.fork()
    if child_of == 0:
        child()
        os._exit(0)
    os.waitpid(child_of, 0)
    hear()


@pytest.mark.parametrize("call", ["get", "iterate", "put", "qsize"])
def test_a_process_without_a_descriptor_of_its_own_is_told_so(
    elsewhere: Elsewhere, call: str
) -> None:
    with tb.Queue(name="jobs") as jobs:
        jobs.put("first")
        other = elsewhere.start(calls_without_a_descriptor_of_its_own, call)
        outcome = other.hear()
        other.tell()
        assert outcome.startswith("OutOfMemory: "), outcome
        assert f"RLIMIT_NOFILE is {MOST}" in outcome
        assert jobs.get(timeout=PATIENCE) == "first"
