"""Rates of topics, from two inspections."""

from __future__ import annotations

from dataclasses import replace

import tensorbus as tb
from support import inspections as made


def test_rates_are_those_of_the_time_between_two_answers() -> None:
    before, after = made.robot(2.0), made.robot(4.0)
    image, features = tb.rates(before, after)
    assert (image.publisher.topic, image.hz, image.dropped_per_second) == ("camera/image", 30, 2)
    assert (features.publisher.topic, features.hz) == ("model/features", 60)
    assert image.bytes_per_second == 30 * made.FRAME


def test_a_process_that_delays_an_inspection_changes_no_rate() -> None:
    before, after = made.robot(2.0), made.robot(4.0)
    late = replace(after, time_ns=after.time_ns + made.SECOND)
    assert tb.rates(before, late)[0].hz == 30


def test_an_age_that_makes_no_sense_is_no_error() -> None:
    before, after = made.robot(2.0), made.robot(4.0)
    assert tb.rates(after, before)
    assert tb.rates(before, before)[0].hz == 0
