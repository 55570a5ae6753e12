"""The topics and nodes of a domain, read from its directory; no daemon is needed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from tensorbus import _core
from tensorbus._base.arguments import seconds
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._core import Outcome, Participant


@public
@dataclass(frozen=True)
class PublisherInfo:
    """A publisher of any process of the domain."""

    topic: str
    node: str  # the name of its node; "" if it belongs to none
    type: str  # the definition of its message type (docs/messages.md); "" if untyped
    fingerprint: int  # of that type; 0 if untyped
    pid: int  # in the PID namespace of its own process
    participant: str
    publisher: str = ""  # its name on this machine, as in the header of its samples
    machine: str = ""  # of a bridge's publisher: the machine of the original; "" for this machine


@public
@dataclass(frozen=True)
class TopicInfo:
    """A topic and its publishers."""

    name: str
    publishers: tuple[PublisherInfo, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """The definitions of its publishers' message types: usually one."""
        return tuple(sorted({publisher.type for publisher in self.publishers}))


@public
@dataclass(frozen=True)
class NodeInfo:
    """A node of any process, and the topics that it publishes."""

    name: str
    topics: tuple[str, ...]  # of a node on another machine: those that the bridge carries
    pid: int  # 0 for a node on another machine
    participant: str
    machine: str = ""  # the other machine, if a bridge connects the node; "" for this machine


@public
def list_topics(domain: str | None = None) -> list[TopicInfo]:
    """The topics that have publishers now, sorted by name.

    >>> from tensorbus import Publisher
    >>> with Publisher("doc/listing", domain="doc-listing"):
    ...     [topic.name for topic in list_topics("doc-listing")]
    ['doc/listing']
    """
    topics: dict[str, list[PublisherInfo]] = {}
    for publisher in _publishers(domain):
        topics.setdefault(publisher.topic, []).append(publisher)
    return [TopicInfo(name, tuple(topics[name])) for name in sorted(topics)]


@public
def list_nodes(domain: str | None = None) -> list[NodeInfo]:
    """The running nodes, sorted by name.

    Nodes of other machines are listed if the bridge carries one of their topics.
    """
    published: dict[tuple[str, str], set[str]] = {}
    for publisher in _core.list_publishers(participant(domain)):
        owner = publisher.origin.partition(".")[0] or publisher.participant
        published.setdefault((owner, publisher.node), set()).add(publisher.topic)
    nodes = [
        NodeInfo(
            node.name,
            tuple(sorted(published.get((node.participant, node.name), ()))),
            node.pid,
            node.participant,
            node.machine,
        )
        for node in _core.list_nodes(participant(domain))
    ]
    return sorted(nodes, key=lambda node: (node.name, node.machine, node.pid))


@public
def wait_for_topic(name: str, timeout: float | None = None, domain: str | None = None) -> bool:
    """Waits until a topic has a publisher; False after `timeout` seconds.

    After a timeout it warns if processes of this user are on another bus (docs/doctor.md).
    """
    home = participant(domain)
    return _done_or_warn(_core.wait_for_topic(name, seconds("timeout", timeout), home), home)


@public
def wait_for_node(name: str, timeout: float | None = None, domain: str | None = None) -> bool:
    """Waits until a node of this name runs; times out and warns like `wait_for_topic`."""
    home = participant(domain)
    return _done_or_warn(_core.wait_for_node(name, seconds("timeout", timeout), home), home)


def _done_or_warn(outcome: Outcome, home: Participant) -> bool:
    if outcome is Outcome.DONE:
        return True
    if elsewhere := _core.elsewhere_text(home.domain):
        message = f"nobody was found on the bus at {home.domain}{elsewhere}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return False


def _publishers(domain: str | None) -> list[PublisherInfo]:
    return [
        PublisherInfo(
            info.topic,
            info.node,
            info.type,
            info.fingerprint,
            info.pid,
            info.participant,
            info.publisher,
            info.machine,
        )
        for info in _core.list_publishers(participant(domain))
    ]
