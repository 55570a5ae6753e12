"""Messages that are left out because they cannot be written in another format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
        """
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # packages that write formats raise errors of many kinds
            if isinstance(error, OSError) and error.errno is not None:
                raise
            count, first = self._found.get(topic, (0, error))
            self._found[topic] = count + 1, first

    def __iter__(self) -> Iterator[str]:
        """A sentence for each topic."""
        for topic, (count, error) in self._found.items():
            why = str(error) or type(error).__name__
            yield f"topic {topic!r}: {count} messages were left out, the first because: {why}"
