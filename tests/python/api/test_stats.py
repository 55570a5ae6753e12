"""What `stats` returns, of every class that has it."""

from __future__ import annotations

import ast
import dataclasses
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.queues.pools import QUICK
from support.repository import ROOT
from tensorbus._base import stats as stats_module

CLASSES = [tb.PublisherStats, tb.SubscriberStats, tb.QueueStats, tb.PoolStats]
PAGES = "topics", "queues", "worker_pool"


@pytest.fixture
def found() -> Iterator[list[Any]]:
    with (
        tb.Publisher("t") as publisher,
        tb.Subscriber("t") as subscriber,
        tb.Queue() as queue,
        tb.WorkerPool(len, workers=1, **QUICK) as pool,
    ):
        yield [publisher.stats, subscriber.stats, queue.stats, pool.stats]


def test_every_counter_is_an_attribute_that_cannot_be_set(found: list[Any]) -> None:
    assert [type(stats) for stats in found] == CLASSES
    for stats in found:
        for field in dataclasses.fields(stats):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(stats, field.name, 0)
    publisher, subscriber, queue, pool = found
    assert (publisher.sent, subscriber.last_refusal, queue.items, pool.done) == (0, "", 0, 0)


def test_programs_that_read_them_as_dicts_go_on_working(found: list[Any]) -> None:
    for stats in found:
        names = [field.name for field in dataclasses.fields(stats)]
        values = dataclasses.asdict(stats)
        assert list(stats) == list(stats.keys()) == names
        assert {name: stats[name] for name in names} == values
        assert dict(stats) == {**stats} == values == stats
        assert json.loads(json.dumps(dict(stats))) == values
        with pytest.raises(KeyError, match="nonsense"):
            stats["nonsense"]


def test_they_are_compared_and_pickled_by_value(found: list[Any]) -> None:
    for stats in found:
        assert pickle.loads(pickle.dumps(stats)) == stats
        first = dataclasses.fields(stats)[0].name
        assert dataclasses.replace(stats, **{first: 7}) != stats
    assert found[0] != found[1]
    assert found[0] != 7


def test_every_counter_is_documented_for_editors_and_readers() -> None:
    pages = "".join((ROOT / f"docs/{page}.md").read_text() for page in PAGES)
    tree = ast.parse(Path(stats_module.__file__).read_text())
    classes = {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
    for kind in CLASSES:
        body = [one for one in classes[kind.__name__][1:] if not isinstance(one, ast.FunctionDef)]
        for field, text in zip(body[::2], body[1::2], strict=True):
            assert isinstance(field, ast.AnnAssign)
            assert isinstance(text, ast.Expr), ast.unparse(field)
            assert f"`{ast.unparse(field.target)}`" in pages
        assert len(body) == 2 * len(dataclasses.fields(kind))
