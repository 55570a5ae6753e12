"""Compares expectations with what the processes of a domain report, once a second."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tensorbus._base.errors import Error
from tensorbus._inspection.inspection import inspect
from tensorbus._inspection.report import Inspection
from tensorbus._up.causes import cause_of, silent_source, with_names
from tensorbus._up.health import Watched
from tensorbus._up.measures import Measures
from tensorbus._up.program import Program

PERIOD = 1.0  # seconds between two inspections
_ASK = 1.0  # seconds for replies


@dataclass
class Watch:
    """The expectations of one process."""

    program: Program
    expected: list[Watched] = field(default_factory=list)

    def __post_init__(self) -> None:
        expect, grace = self.program.expect, self.program.grace
        self.expected = [Watched(each, grace) for each in expect]

    def reset(self) -> None:
        """The process is started: its grace begins again."""
        for each in self.expected:
            each.reset()

    def problems(self) -> list[str]:
        """The expectations that are not met now, also within their grace."""
        return [
            f"{each.expected}: {each.cause or 'not met yet'}"
            for each in self.expected
            if not each.met
        ]


class Monitor:
    """Inspects one domain in the background."""

    def __init__(
        self,
        domain: str | None,
        watches: list[Watch],
        *,
        names: Callable[[], Mapping[int, str]],
        watched: Callable[[Program], bool],
        provider: Callable[[Program, str], str],
        upstream: Callable[[Program], str],
        on_change: Callable[[Program, Watched], None],
        on_fault: Callable[[Program, Watched], None],
        on_tick: Callable[[], None],
    ) -> None:
        """
        Args:
            domain: as for `inspect`.
            watches: the processes with expectations on this domain.
            names: the names of running processes, by pid.
            watched: whether the expectations of a process apply now.
            provider: what the processes do that provide a name for this one; "" if one runs, or
                none does.
            upstream: what is wrong with a process for which this one waits; "": nothing.
            on_change: is called when an expectation is not met any more, or is met again.
            on_fault: is called while an expectation is not met by the fault of its own process.
            on_tick: is called after each inspection.
        """
        self._domain = domain
        self._watches = watches
        self._names = names
        self._watched = watched
        self._provider = provider
        self._upstream = upstream
        self._on_change = on_change
        self._on_fault = on_fault
        self._on_tick = on_tick
        subjects = {each.subject for watch in watches for each in watch.program.expect}
        self._measures = Measures(subjects)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PERIOD
            try:
                found = await loop.run_in_executor(None, inspect, self._domain, _ASK)
            except (Error, OSError):  # the domain is gone for now
                found = Inspection(self._domain or "", time.time_ns(), ())
            self._take(found, loop.time())
            self._on_tick()
            await asyncio.sleep(due - loop.time())

    def _take(self, found: Inspection, now: float) -> None:
        self._measures.add(found, now)
        named = with_names(found, self._names())
        for watch in self._watches:
            if not self._watched(watch.program):
                watch.reset()
                continue
            for each in watch.expected:
                value = self._measures.value(each.expected)
                if value is not None and math.isnan(value):
                    continue  # one inspection is not enough for a rate
                met = value is not None and each.expected.holds(value)
                cause, excused = "", False
                if not met:
                    upstream = self._upstream(watch.program)
                    provider = self._provider(watch.program, each.expected.subject) or upstream
                    cause = cause_of(each.expected, named, provider, value)
                    stopped = silent_source(each.expected, named)
                    other = stopped is not None and watch.program.name not in stopped.nodes
                    excused = bool(upstream) or other
                if each.update(met, cause, now, excused=excused):
                    self._on_change(watch.program, each)
                if each.is_own_fault(now):
                    self._on_fault(watch.program, each)
