"""Topics and nodes of a domain can be asked for, and waited for."""

from __future__ import annotations

import os
import signal
import struct
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell
from tensorbus import _core


def publish_on(topics: list[str]) -> None:
    publishers = [tb.Publisher(topic) for topic in topics]
    node = _core.NodeName("driver", tb.participant())
    tell(os.getpid())
    hear()
    del node
    for publisher in publishers:
        publisher.close()
    tell("closed")
    hear()


def test_a_domain_says_who_publishes_where(elsewhere: Elsewhere) -> None:
    assert tb.list_topics() == []
    first = elsewhere.start(publish_on, ["b", "a/b", "\u00e4 b"])
    second = elsewhere.start(publish_on, ["b"])
    pids = [first.hear(), second.hear()]
    topics = {topic.name: topic for topic in tb.list_topics()}
    assert list(topics) == sorted(["b", "a/b", "\u00e4 b"])
    assert sorted(publisher.pid for publisher in topics["b"].publishers) == sorted(pids)
    assert [publisher.pid for publisher in topics["a/b"].publishers] == pids[:1]
    assert topics["b"].types == ("",)
    assert [(node.name, node.pid) for node in tb.list_nodes()] == [
        ("driver", pid) for pid in sorted(pids)
    ]


def test_who_closes_or_dies_is_listed_no_more(elsewhere: Elsewhere) -> None:
    closing, dying = (elsewhere.start(publish_on, [topic]) for topic in "ab")
    assert all([closing.hear(), dying.hear()])
    closing.tell()
    assert closing.hear() == "closed"
    assert [topic.name for topic in tb.list_topics()] == ["b"]
    dying.kill()
    assert tb.list_topics() == []
    assert tb.list_nodes() == []
    closing.tell()


def test_a_topic_and_a_node_can_be_waited_for(elsewhere: Elsewhere) -> None:
    assert not tb.wait_for_topic("a", timeout=0)
    assert not tb.wait_for_node("driver", timeout=0.01)
    other = elsewhere.start(publish_on, ["a"])
    assert tb.wait_for_topic("a", timeout=PATIENCE)
    assert tb.wait_for_node("driver", timeout=PATIENCE)
    assert other.hear()


def wait_for_ever(what: str) -> None:
    wait = tb.wait_for_node if what == "node" else tb.wait_for_topic
    tell("ready")
    try:
        wait("nobody")
    except KeyboardInterrupt:
        tell("interrupted")


@pytest.mark.parametrize("what", ["node", "topic"])
def test_ctrl_c_ends_such_a_wait(elsewhere: Elsewhere, what: str) -> None:
    other = elsewhere.start(wait_for_ever, what)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"


def mark(domain: str, name: str, *texts: bytes) -> None:
    """Writes a marker as docs/internals/protocol.md has it, section 1."""
    content = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    Path(domain, name).write_bytes(struct.pack("<I", os.getpid()) + content)


def test_what_a_peer_wrote_in_no_utf_8_is_listed_all_the_same(domain: str) -> None:
    me = tb.participant().id
    mark(domain, f"topic@{me}.901.pub", b"t\xff", b"n\xfe", b"robot.P\xc3\nf\xe9: int")
    mark(domain, f"node=n@{me}.902.pub", b"n\xfe", b"", b"")
    (topic,) = tb.list_topics()
    assert (topic.name, topic.types) == ("t\ufffd", ("robot.P\ufffd\nf\ufffd: int",))
    assert [(node.name, node.topics) for node in tb.list_nodes()] == [("n\ufffd", ("t\ufffd",))]
