"""Messages of a recording that cannot be written in another format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class LeftOut:
    """The messages that were left out, by topic, and why."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, Exception]] = {}

    @contextmanager
    def of(self, topic: str) -> Iterator[None]:
        """Notes an error about one message of the topic, and ends the block.

        Raises:
            OSError: of the system, as for a full disk: all that follows would fail, too.
        """
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # the packages that write formats have errors of many kinds
            if isinstance(error, OSError) and error.errno is not None:
                raise
            count, first = self._found.get(topic, (0, error))
            self._found[topic] = count + 1, first

    def __iter__(self) -> Iterator[str]:
        """A sentence for each topic."""
        for topic, (count, error) in self._found.items():
            why = str(error) or type(error).__name__
            yield f"topic {topic!r}: {count} messages were left out, the first because: {why}"
