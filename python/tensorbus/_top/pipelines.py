"""The processes of `tensorbus up`: their table, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from tensorbus._inspection.report import ParticipantReport
from tensorbus._inspection.troubles import Trouble
from tensorbus._inspection.units import short, shown
from tensorbus._top.columns import Row, Subject, Table, columns, number, words
from tensorbus._up.running import PipelineReport, why_unwell

_PIPELINES = columns(
    words("process", partial(short, width=24)),
    words("pipeline", width=16),
    words("state", width=12),
    number("pid", width=7),
    number("restarts", width=8),
    words("reason", width=40),
    why=True,
)


def pipeline_troubles(pipelines: Iterable[PipelineReport]) -> Iterator[Trouble]:
    """The processes of pipelines that have failed, are started again, or miss expectations."""
    for pipeline in pipelines:
        if pipeline.error:
            yield Trouble(f"pipeline {shown(pipeline.name)}", shown(pipeline.error))
        for process in pipeline.processes:
            if words := why_unwell(process):
                yield Trouble(f"{shown(pipeline.name)}: {shown(process.process)}:", shown(words))


def pipelines_table(
    pipelines: Iterable[PipelineReport], participants: Iterable[ParticipantReport]
) -> Table:
    """A row for each process, which opens the page of its participant."""

    def rows() -> list[Row]:
        known = {it.pid: Subject("process", it.participant) for it in participants if it.pid}
        return [
            Row(
                key=f"{pipeline.name}\n{process.process}",
                why=shown(why_unwell(process)),
                opens=known.get(process.pid),
                cells=(
                    shown(process.process),
                    shown(pipeline.name),
                    process.state,
                    process.pid,
                    process.restarts,
                    shown(process.reason),
                ),
            )
            for pipeline in pipelines
            for process in pipeline.processes
        ]

    return Table("Pipelines", _PIPELINES, rows)
