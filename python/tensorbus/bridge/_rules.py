"""Rules: which topics may cross, with which peer, and at which rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

# Prefix of topics that are only for programs on their own machine.
LOCAL_PREFIX = "tensorbus/"


@dataclass(frozen=True)
class Peer:
    """The other end of a connection."""

    address: str
    certificate: dict[str, Any] | None  # from `ssl`; None: the connection is not encrypted

    @property
    def names(self) -> frozenset[str]:
        """The names in its certificate."""
        if self.certificate is None:
            return frozenset()
        found = {name for kind, name in self.certificate.get("subjectAltName", ()) if kind == "DNS"}
        for part in self.certificate.get("subject", ()):
            found.update(value for kind, value in part if kind == "commonName")
        return frozenset(found)


@dataclass(frozen=True)
class Direction:
    """Which topics cross in one direction. Patterns are shell patterns (`fnmatch`).

    Args:
        allow: a topic must match one of these.
        deny: a topic must match none of these.
        machines: patterns that replace `allow` for a machine, by its name.
    """

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    machines: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def lets(self, topic: str, machine: str) -> bool:
        """Returns True if a topic may cross, to or from a machine."""
        if topic.startswith(LOCAL_PREFIX) or _any(self.deny, topic):
            return False
        return _any(self.machines.get(machine, self.allow), topic)


def _any(patterns: Iterable[str], topic: str) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


@dataclass(frozen=True)
class TopicRule:
    """How the topics that match a pattern are sent.

    Args:
        pattern: a shell pattern (`fnmatch`).
        max_rate: max. samples per second; further samples are left out. 0: unlimited.
        max_bytes: max. bytes of tensors per second; further samples are left out. 0: unlimited.
        priority: topics with a higher priority are sent first.
        compress: compress tensors with zstd. Useful for networks slower than the compression.
    """

    pattern: str
    max_rate: float = 0.0
    max_bytes: float = 0.0
    priority: int = 0
    compress: bool = False


@dataclass(frozen=True)
class Rules:
    """What may leave this machine, what may come in, and how it is sent."""

    exports: Direction = Direction()
    imports: Direction = Direction()
    topics: tuple[TopicRule, ...] = ()

    def rule_of(self, topic: str) -> TopicRule:
        """Returns the first rule that matches the topic; the default rule if none does."""
        return next(
            (rule for rule in self.topics if fnmatchcase(topic, rule.pattern)), TopicRule("*")
        )
