"""Which samples are combined: the cases that C++ has, too, and any samples against a reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.repository import ROOT
from tensorbus._topics.time_matcher import TimeMatcher


@dataclass
class Case:
    name: str
    settings: list[int] = field(default_factory=list)  # topics, tolerance, queue size
    samples: list[tuple[int, int, list[int] | None]] = field(default_factory=list)
    dropped: dict[str, list[int]] = field(default_factory=dict)


def cases() -> list[Case]:
    found: list[Case] = []
    for line in (ROOT / "tests/public/time_matcher_cases.txt").read_text().splitlines():
        match line.split():
            case ["case", *_]:
                found.append(Case(line.removeprefix("case ")))
            case ["topics", topics, "tolerance", tolerance, "queue", size]:
                found[-1].settings = [int(topics), int(tolerance), int(size)]
            case ["dropped", *words]:
                step = found[-1].settings[0] + 1
                for first in range(0, len(words), step):
                    counts = [int(word) for word in words[first + 1 : first + step]]
                    found[-1].dropped[words[first]] = counts
            case [topic, time] if topic.isdigit():
                found[-1].samples.append((int(topic), int(time), None))
            case [topic, time, "->", *times]:
                found[-1].samples.append((int(topic), int(time), [int(word) for word in times]))
    return found


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_that_cpp_has_too(case: Case) -> None:
    matcher: TimeMatcher[int] = TimeMatcher(*case.settings)
    for topic, time, expected in case.samples:
        assert matcher.add(topic, time, time) == expected, (topic, time)
    nothing = [0] * case.settings[0]
    for reason in ("unmatched", "overflowed", "late"):
        counts = [getattr(each, reason) for each in matcher.topics]
        assert counts == case.dropped.get(reason, nothing), reason


def test_the_cases_are_many() -> None:
    assert len(cases()) > 15


TIMES = st.one_of(st.integers(0, 30), st.integers(0, 3000))
SAMPLES = st.integers(2, 4).flatmap(
    lambda count: st.tuples(
        st.just(count), st.lists(st.tuples(st.integers(0, count - 1), TIMES), max_size=60)
    )
)
Sample = tuple[int, int]  # its time and its number: no two are equal


def spread(samples: list[Sample] | tuple[Sample, ...]) -> int:
    times = [time for time, _ in samples]
    return max(times) - min(times)


@given(SAMPLES, st.sampled_from([0, 1, 5, 40]), st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_what_holds_for_any_samples(
    given_samples: tuple[int, list[Sample]], tolerance: int, queue_size: int
) -> None:
    count, samples = given_samples
    matcher: TimeMatcher[Sample] = TimeMatcher(count, tolerance, queue_size)
    received, sets = [0] * count, []
    for number, (topic, time) in enumerate(samples):
        received[topic] += 1
        if (found := matcher.add(topic, time, (time, number))) is not None:
            sets.append(found)
        assert all(len(each.waiting) <= queue_size for each in matcher.topics)
        assert any(not each.waiting for each in matcher.topics)  # else there were another set
    assert matcher.sets == len(sets)
    assert all(spread(each) <= tolerance for each in sets)
    for topic, each in enumerate(matcher.topics):
        numbers = [found[topic][1] for found in sets]
        assert all(samples[number][0] == topic for number in numbers)
        assert numbers == sorted(set(numbers))  # each is used once, in the order of arrival
        dropped = each.unmatched + each.overflowed + each.late
        assert received[topic] == len(sets) + dropped + len(each.waiting)
        if not any(topic.late for topic in matcher.topics) and queue_size > 1:
            times = [found[topic][0] for found in sets]
            assert times == sorted(times)


@given(SAMPLES, st.sampled_from([0, 1, 5, 40]))
@settings(max_examples=200, deadline=None)
def test_a_set_is_the_tightest_as_soon_as_there_is_one(
    given_samples: tuple[int, list[Sample]], tolerance: int
) -> None:
    """Times ascend, and queues have room for all: compared with all combinations."""
    count, unsorted = given_samples
    samples = unsorted[:16]
    matcher: TimeMatcher[Sample] = TimeMatcher(count, tolerance, len(samples) + 1)
    unused: list[list[Sample]] = [[] for _ in range(count)]
    newest = [0] * count
    for number, (topic, step) in enumerate(samples):
        newest[topic] += step
        sample = newest[topic], number
        unused[topic].append(sample)
        possible = [each for each in product(*unused) if spread(each) <= tolerance]
        found = matcher.add(topic, newest[topic], sample)
        assert (found is not None) == bool(possible)
        if found is None:
            continue
        # The pivot: the newest of the oldest samples that are in any set.
        pivot = max(min(each[index] for each in possible)[0] for index in range(count))
        with_it = [each for each in possible if any(time == pivot for time, _ in each)]
        assert spread(found) == min(spread(each) for each in with_it)
        for index, taken in enumerate(found):
            unused[index] = [each for each in unused[index] if each > taken]
