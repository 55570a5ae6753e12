"""Mistakes of a first day are errors at once, whose text says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE


@pytest.mark.parametrize(
    "endpoint", [tb.AsyncSubscriber, tb.Publisher, lambda name: tb.Queue(name=name)]
)
def test_wait_any_of_one_endpoint_says_to_pass_a_list(endpoint: Callable[[str], Any]) -> None:
    with (
        endpoint("nobody") as one,
        pytest.raises(TypeError, match=re.escape("write wait_any([subscriber])")),
    ):
        tb.wait_any(one, timeout=0)


def test_wait_any_of_one_subscriber_takes_no_sample() -> None:
    with tb.Publisher("t", history=1) as publisher, tb.Subscriber("t") as subscriber:
        publisher.publish(7)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        with pytest.raises(TypeError, match=r"wait_any\(Subscriber\): expected a list"):
            tb.wait_any(subscriber)  # type: ignore[arg-type]
        assert subscriber.receive(PATIENCE).data == 7
