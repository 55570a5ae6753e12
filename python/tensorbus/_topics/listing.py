"""The topics and nodes of a domain, read from its directory; no daemon is needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from tensorbus import _core
from tensorbus._base.arguments import seconds
from tensorbus._base.listed import Listed
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._core import Outcome, Participant


@public
@dataclass(frozen=True)
class PublisherInfo:
    """A publisher of any process of the domain."""

    topic: str
    """The name of its topic."""
    node: str
    """The name of its node; "" if it belongs to none."""
    type: str
    """The definition of its message type (docs/messages.md); "" if it has none."""
    fingerprint: int
    """The fingerprint of that type; 0 if it has none."""
    pid: int
    """The id of its process, in that process's own PID namespace."""
    participant: str
    """The id of its participant."""
    publisher: str = ""
    """Its name on this machine, as in the header of its samples."""
    machine: str = ""
    """For a publisher of a bridge, the machine of the original publisher; else ""."""


@public
@dataclass(frozen=True)
class TopicInfo:
    """A topic and its publishers."""

    name: str
    """The name of the topic."""
    publishers: tuple[PublisherInfo, ...]
    """Its publishers, at least one."""

    @property
    def types(self) -> tuple[str, ...]:
        """The definitions of its publishers' message types: usually one."""
        return tuple(sorted({publisher.type for publisher in self.publishers}))


@public
@dataclass(frozen=True)
class NodeInfo:
    """A node of any process, and the topics that it publishes."""

    name: str
    """The name of the node."""
    topics: tuple[str, ...]
    """The topics that it publishes. For a node on another machine, only those that the bridge
    carries."""
    pid: int
    """The id of its process; 0 for a node on another machine."""
    participant: str
    """The id of its participant."""
    machine: str = ""
    """The name of the other machine, if a bridge connects the node; "" for this machine."""


class _Topics(Listed[TopicInfo]):
    """The list of `list_topics`."""

    __slots__ = ()
    _kind = TopicInfo

    def _table(self) -> str:
        from tensorbus._base.html import grid

        rows = (
            (
                topic.name,
                ", ".join(each.partition("\n")[0] for each in topic.types),
                len(topic.publishers),
                _names(each.node for each in topic.publishers),
                _names(each.machine for each in topic.publishers),
            )
            for topic in self
        )
        columns = ("topic", "type", "publishers", "nodes", "machines")
        return grid(f"topics: {len(self)}", columns, rows, len(self))


class _Nodes(Listed[NodeInfo]):
    """The list of `list_nodes`."""

    __slots__ = ()
    _kind = NodeInfo

    def _table(self) -> str:
        from tensorbus._base.html import grid

        rows = ((node.name, node.pid or "", node.machine, _names(node.topics)) for node in self)
        columns = ("node", "pid", "machine", "publishes")
        return grid(f"nodes: {len(self)}", columns, rows, len(self))


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted({*names} - {""}))


@public
def list_topics(domain: str | None = None) -> list[TopicInfo]:
    """The topics that have publishers now, sorted by name.

    Args:
        domain: see `tensorbus.participant`.

    >>> from tensorbus import Publisher
    >>> with Publisher("doc/listing", domain="doc-listing"):
    ...     [topic.name for topic in list_topics("doc-listing")]
    ['doc/listing']
    """
    topics: dict[str, list[PublisherInfo]] = {}
    for publisher in _publishers(domain):
        topics.setdefault(publisher.topic, []).append(publisher)
    return _Topics(TopicInfo(name, tuple(topics[name])) for name in sorted(topics))


@public
def list_nodes(domain: str | None = None) -> list[NodeInfo]:
    """The running nodes, sorted by name.

    Nodes of other machines are listed if the bridge carries one of their topics.

    Args:
        domain: see `tensorbus.participant`.

    >>> from tensorbus import Node
    >>> with Node("camera", domain="doc-nodes"):
    ...     [node.name for node in list_nodes("doc-nodes")]
    ['camera']
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
    return _Nodes(sorted(nodes, key=lambda node: (node.name, node.machine, node.pid)))


@public
def wait_for_topic(name: str, timeout: float | None = None, domain: str | None = None) -> bool:
    """Waits until a topic has a publisher; False after `timeout` seconds.

    After a timeout, a `RuntimeWarning` names other buses that have processes of this user
    (docs/doctor.md).

    Args:
        name: the topic.
        timeout: seconds; `None` for no limit.
        domain: see `tensorbus.participant`.
    """
    home = participant(domain)
    return _done_or_warn(_core.wait_for_topic(name, seconds("timeout", timeout), home), home)


@public
def wait_for_node(name: str, timeout: float | None = None, domain: str | None = None) -> bool:
    """Waits until a node with this name runs; False after `timeout` seconds.

    It warns after a timeout like `wait_for_topic`.
    """
    home = participant(domain)
    return _done_or_warn(_core.wait_for_node(name, seconds("timeout", timeout), home), home)


def _done_or_warn(outcome: Outcome, home: Participant) -> bool:
    if outcome is Outcome.DONE:
        return True
    if elsewhere := _core.elsewhere_text(home.domain):
        message = f"no match was found on the bus at {home.domain}{elsewhere}"
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
