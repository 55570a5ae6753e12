"""What may cross, with which peer, and how fast."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

# Topics that say something of one machine, to programs on it.
LOCAL_PREFIX = "tensorbus/"


@dataclass(frozen=True)
class Peer:
    """The other end of a connection."""

    address: str
    certificate: dict[str, Any] | None  # as `ssl` gives it; None: the connection is not encrypted

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
    """Which topics cross in one direction. Patterns are those of a shell (`fnmatch`).

    Args:
        allow: a topic needs one of these.
        deny: and none of these.
        machines: other patterns of `allow` for machines by name, in place of it.
    """

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    machines: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def lets(self, topic: str, machine: str) -> bool:
        """Whether a topic may cross, to or from a machine."""
        if topic.startswith(LOCAL_PREFIX) or _any(self.deny, topic):
            return False
        return _any(self.machines.get(machine, self.allow), topic)


def _any(patterns: Iterable[str], topic: str) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


@dataclass(frozen=True)
class TopicRule:
    """How topics of a pattern are sent.

    Args:
        pattern: of a shell (`fnmatch`).
        max_rate: samples a second at most; the others are left out. 0: all.
        max_bytes: of tensors, a second, at most; samples beyond are left out. 0: any.
        priority: topics of a higher one go first.
        compress: their bytes (zstd), for networks that are slower than that.
    """

    pattern: str
    max_rate: float = 0.0
    max_bytes: float = 0.0
    priority: int = 0
    compress: bool = False


@dataclass(frozen=True)
class Rules:
    """What may leave this machine, what may come, and how it is sent."""

    exports: Direction = Direction()
    imports: Direction = Direction()
    topics: tuple[TopicRule, ...] = ()

    def rule_of(self, topic: str) -> TopicRule:
        """The first rule for it."""
        return next(
            (rule for rule in self.topics if fnmatchcase(topic, rule.pattern)), TopicRule("*")
        )
