"""Records the events that the processes of a domain write."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tensorbus import _core
from tensorbus._trace.events import Event, SampleId, Source, events_of

_PERIOD = 0.01  # seconds between two polls; a ring holds 65,536 records
_MAX_RECORDS = 4_000_000  # 256 MB; then the recording ends
_RECORD_BYTES = 64


class Recording:
    """The records of all processes so far."""

    def __init__(self, topics: list[str], domain: str | None) -> None:
        self._tracer: _core.Tracer | None = _core.Tracer(domain or "", topics)
        self._records: list[list[bytes]] = []
        self._count = 0
        self._topics: dict[str, str] = {}
        self.sources: list[Source] = []

    def run(self, until: Callable[[], bool]) -> None:
        """Records until `until` returns True, the recording is full, or all processes refused."""
        while not until() and not self.is_full and not self.refused():
            self._poll()
            time.sleep(_PERIOD)

    def end(self) -> None:
        """Reads the remaining records, and ends tracing in the processes."""
        if self._tracer is None:
            return
        self._poll()
        self._tracer = None

    @property
    def is_full(self) -> bool:
        return self._count >= _MAX_RECORDS

    def refused(self) -> bool:
        """True if there are participants and all have refused."""
        return bool(self.sources) and all(one.state == "refused" for one in self.sources)

    def events(self) -> list[Event]:
        return [
            event
            for number, (source, records) in enumerate(
                zip(self.sources, self._records, strict=True)
            )
            for chunk in records
            for event in events_of(chunk, number, source.participant)
        ]

    def topic_of(self, sample: SampleId) -> str:
        return self._topics.get(sample.publisher, f"publisher {sample.publisher}")

    def threads_of(self, events: list[Event]) -> dict[tuple[int, int], str]:
        """The names of threads of the events, if the threads still run."""
        names = {}
        for process, thread in {(event.process, event.thread) for event in events}:
            path = Path(f"/proc/{self.sources[process].pid}/task/{thread}/comm")
            try:
                names[process, thread] = path.read_text(errors="replace").strip()
            except OSError:  # the thread has ended
                continue
        return names

    def _poll(self) -> None:
        assert self._tracer is not None
        self._tracer.poll()
        self.sources = [Source(*source) for source in self._tracer.sources()]
        self._topics = self._tracer.topics
        self._records += ([] for _ in range(len(self.sources) - len(self._records)))
        for number, records in enumerate(self._records):
            if chunk := self._tracer.take(number):
                records.append(chunk)
                self._count += len(chunk) // _RECORD_BYTES
