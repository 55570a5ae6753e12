"""What is made of the events of a trace, without processes."""

from __future__ import annotations

import json

from tensorbus._trace.durations import Durations, hops_of, paths_of
from tensorbus._trace.events import PARENT, PUBLISH, RECEIVE, RELEASE, USE, Event, SampleId, Source
from tensorbus._trace.perfetto import json_of
from tensorbus._trace.samples import samples_of

CAMERA, BOXES, STATE, ACTION = (f"{'0' * 32}.{number}" for number in range(1, 5))
NAMES = {CAMERA: "camera", BOXES: "boxes", STATE: "state", ACTION: "action"}
SOURCES = [Source("5f" * 16, 100 + number, f"stage{number}", "traced") for number in range(3)]


def topic_of(sample: SampleId) -> str:
    return NAMES[sample.publisher]


def event(time: int, kind: int, publisher: str, sequence: int, process: int) -> Event:
    return Event(time, kind, SampleId(publisher, sequence), process, 7)


def made(time: int, parent: SampleId, child: SampleId, process: int) -> Event:
    return Event(time, PARENT, parent, process, 7, child)


def pipeline(number: int, begin: int) -> list[Event]:
    """A frame: published in process 0, its boxes made in 1, and received in 2."""
    return [
        event(begin, PUBLISH, CAMERA, number, 0),
        event(begin + 10, RECEIVE, CAMERA, number, 1),
        event(begin + 15, USE, CAMERA, number, 1),
        event(begin + 40, PUBLISH, BOXES, number, 1),
        made(begin + 40, SampleId(CAMERA, number), SampleId(BOXES, number), 1),
        event(begin + 45, RELEASE, CAMERA, number, 1),
        event(begin + 50, RECEIVE, BOXES, number, 2),
        event(begin + 60, RELEASE, BOXES, number, 2),
    ]


def times(durations: list[Durations]) -> dict[tuple[str, int], list[int]]:
    return {(each.name, each.process): each.times_ns for each in durations}


def test_hops_and_paths_of_a_pipeline() -> None:
    samples = samples_of([*reversed(pipeline(0, 0)), *pipeline(1, 1000)])
    assert times(hops_of(samples, topic_of)) == {
        ("camera: publish → receive", 1): [10, 10],
        ("camera: receive → first use", 1): [5, 5],
        ("camera: receive → release", 1): [35, 35],
        ("camera: receive → publish boxes", 1): [30, 30],
        ("boxes: publish → receive", 2): [10, 10],
        ("boxes: receive → release", 2): [10, 10],
    }
    assert times(paths_of(samples, topic_of)) == {("camera → boxes", 2): [50, 50]}


def test_a_process_that_makes_nothing_of_a_sample_ends_a_path_beside_one_that_does() -> None:
    samples = samples_of([*pipeline(0, 0), event(12, RECEIVE, CAMERA, 0, 2)])
    assert times(paths_of(samples, topic_of)) == {
        ("camera", 2): [12],
        ("camera → boxes", 2): [50],
    }


def test_a_sample_of_two_parents_has_two_paths() -> None:
    left, right, both = SampleId(CAMERA, 0), SampleId(STATE, 0), SampleId(BOXES, 0)
    samples = samples_of(
        [
            event(0, PUBLISH, CAMERA, 0, 0),
            event(5, PUBLISH, STATE, 0, 0),
            event(20, PUBLISH, BOXES, 0, 1),
            made(20, left, both, 1),
            made(20, right, both, 1),
            event(30, RECEIVE, BOXES, 0, 2),
        ]
    )
    assert times(paths_of(samples, topic_of)) == {
        ("camera → boxes", 2): [30],
        ("state → boxes", 2): [25],
    }


def test_a_loop_of_topics_is_followed_once_around() -> None:
    events = []
    for number in range(1000):
        state, action = SampleId(STATE, number), SampleId(ACTION, number)
        events += [
            event(100 * number, PUBLISH, STATE, number, 0),
            event(100 * number + 50, PUBLISH, ACTION, number, 1),
            made(100 * number + 50, state, action, 1),
            made(100 * number + 100, action, SampleId(STATE, number + 1), 0),
        ]
    events.append(event(100 * 999 + 60, RECEIVE, ACTION, 999, 0))
    assert times(paths_of(samples_of(events), topic_of)) == {("state → action", 0): [60]}


def test_samples_that_are_their_own_parents_end_nothing() -> None:
    one, other = SampleId(CAMERA, 0), SampleId(BOXES, 0)
    samples = samples_of(
        [
            event(0, PUBLISH, CAMERA, 0, 0),
            event(1, PUBLISH, BOXES, 0, 0),
            *(made(2, parent, child, 0) for parent in (one, other) for child in (one, other)),
            event(9, RECEIVE, BOXES, 0, 2),
        ]
    )
    assert times(paths_of(samples, topic_of)) == {("camera → boxes", 2): [9]}


def test_what_was_received_twice_in_a_process_is_released_twice() -> None:
    samples = samples_of(
        [
            event(0, PUBLISH, CAMERA, 0, 0),
            event(1, RECEIVE, CAMERA, 0, 1),
            event(2, RECEIVE, CAMERA, 0, 1),
            event(7, RELEASE, CAMERA, 0, 1),
            event(9, RELEASE, CAMERA, 0, 1),
        ]
    )
    assert times(hops_of(samples, topic_of))["camera: receive → release", 1] == [6, 7]


def test_a_trace_that_began_in_the_middle_has_what_was_seen() -> None:
    samples = samples_of([event(5, RECEIVE, CAMERA, 0, 1), event(7, RELEASE, CAMERA, 0, 1)])
    assert times(hops_of(samples, topic_of)) == {("camera: receive → release", 1): [2]}
    assert paths_of(samples, topic_of) == []


def test_the_file_has_processes_threads_slices_and_arrows() -> None:
    samples = samples_of(pipeline(0, 1000))
    trace = json_of(samples, topic_of, SOURCES, {(1, 7): "worker"})
    events = json.loads(json.dumps(trace))["traceEvents"]
    named = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert named == {100: "stage0", 101: "worker", 102: "stage2"}
    slices = {(event["name"], event["pid"]): event["ts"] for event in events if event["ph"] == "X"}
    assert slices == {
        ("publish camera", 100): 0,
        ("receive camera", 101): 0.01,
        ("first use camera", 101): 0.015,
        ("publish boxes", 101): 0.04,
        ("receive boxes", 102): 0.05,
    }
    arrows = [
        (begin["pid"], begin["ts"], end["pid"], end["ts"])
        for begin in events
        for end in events
        if (begin["ph"], end["ph"]) == ("s", "f") and begin["id"] == end["id"]
    ]
    assert arrows == [(100, 0, 101, 0.01), (101, 0.01, 101, 0.04), (101, 0.04, 102, 0.05)]
    # Each arrow begins and ends in a slice of its thread.
    assert {(pid, ts) for arrow in arrows for pid, ts in (arrow[:2], arrow[2:])} <= {
        (event["pid"], event["ts"]) for event in events if event["ph"] == "X"
    }
