"""Who is in a domain, as its directory says: no daemon is asked."""

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
    """A publisher of some process."""

    topic: str
    node: str  # the name of the node that it belongs to; "": of none
    type: str  # the definition of its messages' type (docs/messages.md); "": any
    fingerprint: int  # of that type; 0: any
    pid: int  # as its own process sees it
    participant: str
    publisher: str = ""  # its name on this machine, as in the header of its samples
    machine: str = ""  # whose publisher it stands for, if a bridge made it; "": of this machine


@public
@dataclass(frozen=True)
class TopicInfo:
    """A topic, and who publishes there."""

    name: str
    publishers: tuple[PublisherInfo, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """The definitions of what is published there: one, as a rule."""
        return tuple(sorted({publisher.type for publisher in self.publishers}))


@public
@dataclass(frozen=True)
class NodeInfo:
    """A node of some process, and the topics that it publishes."""

    name: str
    topics: tuple[str, ...]  # of a node of another machine: those that cross
    pid: int  # 0: of another machine
    participant: str
    machine: str = ""  # that it is on, if a bridge connects it; "": this one


@public
def list_topics(domain: str | None = None) -> list[TopicInfo]:
    """The topics that somebody publishes now, by name.

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
    """The nodes that live now, by name. Of other machines those with a topic that crosses."""
    published: dict[tuple[str, str], set[str]] = {}
    for found in _core.list_publishers(participant(domain)):
        of = found.origin.partition(".")[0] or found.participant
        published.setdefault((of, found.node), set()).add(found.topic)
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
    """Waits until somebody publishes on a topic; False after `timeout` seconds.

    Warns if processes of this user are on another bus then (docs/doctor.md).
    """
    home = participant(domain)
    return _found(_core.wait_for_topic(name, seconds("timeout", timeout), home), home)


@public
def wait_for_node(name: str, timeout: float | None = None, domain: str | None = None) -> bool:
    """Waits until there is a node of this name; False, and warns, like `wait_for_topic`."""
    home = participant(domain)
    return _found(_core.wait_for_node(name, seconds("timeout", timeout), home), home)


def _found(outcome: Outcome, home: Participant) -> bool:
    if outcome is Outcome.DONE:
        return True
    if elsewhere := _core.elsewhere_text(home.domain):
        message = f"nobody was found on the bus at {home.domain}{elsewhere}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return False


def _publishers(domain: str | None) -> list[PublisherInfo]:
    return [
        PublisherInfo(
            found.topic,
            found.node,
            found.type,
            found.fingerprint,
            found.pid,
            found.participant,
            found.publisher,
            found.machine,
        )
        for found in _core.list_publishers(participant(domain))
    ]
