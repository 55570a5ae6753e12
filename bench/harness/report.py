"""What a benchmark in Python prints, and the figures that it is made of."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable


def is_quick(description: str | None) -> bool:
    """Whether the command line says --quick."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="less of everything")
    return bool(parser.parse_args().quick)


def report(row: str, repetition: int, **values: float) -> None:
    """One JSON object a line, for run.py: what one repetition of one row measured."""
    print(json.dumps({"row": row, "repetition": repetition, **values}), flush=True)


def percentile(values: Iterable[float], part: float) -> float:
    """The value that `part` (0 to 1) of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def report_absent(row: str, why: str) -> None:
    """A row that cannot be measured here is named, with the reason."""
    print(json.dumps({"row": row, "repetition": 0, "absent": why}), flush=True)


def progress(text: str) -> None:
    """For who waits; the report is on stdout."""
    print(f"   {text}", file=sys.stderr, flush=True)
