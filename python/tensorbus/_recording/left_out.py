"""Messages that are left out because they cannot be written in another format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensorbus._base.errors import Unsupported


class TopicRefused(Unsupported):
    """A format cannot hold the messages of a topic; none of them is written."""


class LeftOut:
    """Counts of messages that were left out, by topic, with the first error of each."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, Exception]] = {}

    @contextmanager
    def of(self, topic: str) -> Iterator[None]:
        """A context that counts an error of its block as one message left out.

        Raises:
            OSError: a system call failed, for example because the disk is full: later messages
                would fail, too.
            TopicRefused: the block raised it; see `add`.
        """
        try:
            yield
        except (MemoryError, TopicRefused):
            raise
        except Exception as error:  # packages that write formats raise errors of many kinds
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self.add(topic, 1, error)

    def add(self, topic: str, count: int, error: Exception) -> None:
        """Counts messages that were left out because of this error."""
        before, first = self._found.get(topic, (0, error))
        self._found[topic] = before + count, first

    def __iter__(self) -> Iterator[str]:
        """A sentence for each topic."""
        for topic, (count, error) in self._found.items():
            why = str(error) or type(error).__name__
            yield f"topic {topic!r}: {count} messages were left out, the first because: {why}"
