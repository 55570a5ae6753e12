"""The types of Cortex's discovery."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import PurePath

from tensorbus._base.participant import participant
from tensorbus._topics.listing import PublisherInfo, list_topics

# The default of arguments that are an address in Cortex; they are ignored.
DEFAULT_DISCOVERY_ADDRESS = "ipc:///tmp/cortex/discovery.sock"


class DiscoveryCommand(IntEnum):
    """Requests to Cortex's daemon."""

    REGISTER_TOPIC = 1
    UNREGISTER_TOPIC = 2
    LOOKUP_TOPIC = 3
    LIST_TOPICS = 4
    PING = 5
    SHUTDOWN = 99


class DiscoveryStatus(IntEnum):
    """Replies of Cortex's daemon."""

    OK = 0
    NOT_FOUND = 1
    ALREADY_EXISTS = 2
    ERROR = 3


@dataclass
class TopicInfo:
    """A topic, and its first publisher."""

    name: str
    address: str
    """The address of the socket of the publisher's process."""
    message_type: str
    """The name of the message class, without its module; "": any data."""
    fingerprint: int
    """The fingerprint of that type; 0: any data."""
    publisher_node: str
    """The name of the publisher's node."""
    publishers: tuple[PublisherInfo, ...] = field(default=(), repr=False, compare=False)
    """All publishers of the topic."""


def topics(domain: str | None = None) -> list[TopicInfo]:
    """The topics that have a publisher."""
    return [
        TopicInfo(
            topic.name,
            address_of(topic.publishers[0].participant, domain),
            topic.publishers[0].type.partition("\n")[0].rpartition(".")[2],
            topic.publishers[0].fingerprint,
            topic.publishers[0].node,
            topic.publishers,
        )
        for topic in list_topics(domain)
    ]


def topic_named(name: str, domain: str | None = None) -> TopicInfo | None:
    """The topic with this name; None if it has no publisher."""
    return next((topic for topic in topics(domain) if topic.name == name), None)


def address_of(process: str, domain: str | None = None) -> str:
    """The address of the Unix socket at which a participant listens."""
    return f"ipc://{PurePath(participant(domain).domain) / process}.sock"
