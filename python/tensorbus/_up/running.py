"""The pipelines that run on a domain, for `tensorbus top`, `view` and `metrics`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tensorbus._base.errors import Error
from tensorbus._up.client import ask, sockets
from tensorbus._up.control import Request
from tensorbus._up.state import State
from tensorbus._up.status import ProcessStatus, statuses

_PATIENCE = 0.5  # seconds
_UNWELL = {State.BACKING_OFF.value, State.FAILED.value}


@dataclass(frozen=True)
class PipelineReport:
    """A running `tensorbus up`."""

    name: str
    processes: tuple[ProcessStatus, ...]
    error: str
    """Why it did not reply, without its name; "": it replied."""


def running_pipelines(folder: str) -> tuple[PipelineReport, ...]:
    """The pipelines on the domain of this path, sorted by name. They are asked at the same time."""
    found = sockets(folder)
    if not found:
        return ()
    with ThreadPoolExecutor(len(found)) as pool:
        reports = [*pool.map(_report, found, found.values())]
    return tuple(report for report in reports if report)


def why_unwell(process: ProcessStatus) -> str:
    """What is wrong with a process, with its unmet expectations; "": nothing."""
    own = [f"{process.state}: {process.reason}"] if process.state in _UNWELL else []
    return "; ".join([*own, *process.unmet])


def _report(name: str, path: Path) -> PipelineReport | None:
    """What a pipeline replies; None: it has ended meanwhile."""
    try:
        return PipelineReport(name, tuple(statuses(ask(path, Request("status"), _PATIENCE))), "")
    except TimeoutError:
        return PipelineReport(name, (), f"gives no reply within {_PATIENCE:g} s")
    except (Error, OSError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return PipelineReport(name, (), "gives a reply of another version of Tensorbus")
