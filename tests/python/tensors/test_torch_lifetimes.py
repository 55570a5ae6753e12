"""No torch tensor is kept alive that nobody needs, neither sent nor received."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tensorbus as tb
from support.harness import joined
from support.torch_kinds import NESTED, SPARSE, Pair, torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # "beta", "prototype"


KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.ones(3),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "conjugate": lambda: torch.ones(3, dtype=torch.complex64).conj(),
    "meta": lambda: torch.ones(3, device="meta"),
    "a subclass": lambda: Pair(torch.ones(3), torch.ones(3)),
    "COO": SPARSE["COO, coalesced"],
    "CSR": SPARSE["CSR"],
    "nested": NESTED["strided"],
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: {"a": [t, (t,)]}])
def test_nothing_is_kept_alive_that_nobody_needs(name: str, wrap: Callable[[Any], Any]) -> None:
    with joined() as (publisher, subscriber):
        gc.collect()
        gc.disable()
        try:
            tensor = KINDS[name]()
            sent = weakref.ref(tensor)
            publisher.publish(wrap(tensor))
            del tensor
            assert sent() is None
            sample = subscriber.receive()
            data = sample.data
            arrived = weakref.ref(data["a"][0] if isinstance(data, dict) else data)
            del sample, data
            assert arrived() is None
            assert subscriber.stats["held"] == 0
        finally:
            gc.enable()


def test_a_refusal_keeps_nothing_alive() -> None:
    with joined() as (publisher, _):
        gc.collect()
        gc.disable()
        try:
            good, bad = torch.ones(3), torch.ones(3).as_subclass(type("Mine", (torch.Tensor,), {}))
            references = [weakref.ref(good), weakref.ref(bad)]
            with pytest.raises(tb.Unsupported) as refusal:
                publisher.publish([good, {"bad": bad}])
            del good, bad, refusal
            assert [reference() for reference in references] == [None, None]
        finally:
            gc.enable()
