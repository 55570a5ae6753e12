"""The events of traced processes, decoded from records that the tracer has checked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tensorbus._inspection.units import process_name

# A record of a ring (docs/tracing.md): stamp, time, event, thread, participant, publisher, child's
# publisher, sequence, child's sequence.
_RECORD = struct.Struct("=QQII16sIIQQ")

PUBLISH, RECEIVE, USE, RELEASE, PARENT = range(1, 6)


class SampleId(NamedTuple):
    """Identifies a sample on its machine."""

    publisher: str  # the participant's id and the publisher's number, as in `Header.publisher`
    sequence: int


class Event(NamedTuple):
    """An event of a sample in a process."""

    time_ns: int  # of the monotonic clock, which is the same for all processes
    kind: int
    sample: SampleId  # with kind PARENT: the parent
    process: int  # the index of the source
    thread: int
    child: SampleId | None = None  # with kind PARENT


@dataclass(frozen=True)
class Source:
    """A process that the tracer has requested to write events."""

    participant: str
    pid: int  # 0: the process is in another PID namespace
    process: str  # the name of its program; "": unknown
    state: str  # "traced" or "ended": it was traced; "refused" or "asked" (no reply): it was not
    why: str = ""  # the reason for "refused"
    overwritten: int = 0  # records that were not read in time
    incomplete: int = 0  # records that were begun and not completed

    @property
    def name(self) -> str:
        return process_name(self.process, self.pid, self.participant)


def events_of(records: bytes, process: int, participant: str) -> Iterator[Event]:
    """The events in the records of one source."""
    for (
        _,
        time_ns,
        kind,
        thread,
        owner,
        number,
        child,
        sequence,
        child_sequence,
    ) in _RECORD.iter_unpack(records):
        sample = SampleId(f"{owner.hex()}.{number}", sequence)
        made = SampleId(f"{participant}.{child}", child_sequence) if kind == PARENT else None
        yield Event(time_ns, kind, sample, process, thread, made)
