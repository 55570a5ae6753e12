"""The name of a process for people."""

from __future__ import annotations

from tensorbus._inspection.units import shown


def process_name(program: str, pid: int, participant: str) -> str:
    """The program and its pid; of another pid namespace, where that is not known, its id.

    >>> process_name("camera", 4312, "5f" * 16), process_name("", 0, "5f" * 16)
    ('camera (4312)', '? (5f5f5f5f)')
    """
    return f"{shown(program) or '?'} ({pid or participant[:8]})"
