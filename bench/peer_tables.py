"""What python_peers.py measured, as tables: all sizes at a glance, then each on its own."""

from __future__ import annotations

import statistics

from harness.figures import indistinct
from tables import SAME_GROUP, Rows, Table, label, number, spread_text

Titled = list[tuple[str, Table]]
COLUMNS = ["p50_ns", "p99_ns", "p999_ns", "read_ns", "loan_ns", "send_ns", "release_ns"]


def by_size(rows: Rows) -> dict[str, Rows]:
    """Size -> way -> what was measured. What is absent belongs to no size."""
    sizes: dict[str, Rows] = {}
    for row, values in rows.items():
        size, separator, way = row.partition(SAME_GROUP)
        if separator:
            sizes.setdefault(size, {})[way] = values
    return sizes


def absences(rows: Rows) -> dict[str, str]:
    return {row: str(values["absent"][0]) for row, values in rows.items() if "absent" in values}


def overview(rows: Rows, key: str, show: str) -> Table:
    sizes = by_size(rows)
    ways = list(dict.fromkeys(way for measured in sizes.values() for way in measured))
    table = [["", *sizes]]
    for way in ways:
        cells = [
            number(show, statistics.median(measured[way][key]))
            if key in measured.get(way, {})
            else ""
            for measured in sizes.values()
        ]
        if any(cells):
            table.append([way, *cells])
    return table


def absent_table(rows: Rows) -> Table:
    return [["absent", "why"], *([name, why] for name, why in absences(rows).items())]


def size_table(measured: Rows) -> Table:
    """Nearest first, so that neighbours are those that are to be compared."""
    p50 = {way: values["p50_ns"] for way, values in measured.items()}
    ordered = sorted(p50, key=lambda way: statistics.median(p50[way]))
    notes = indistinct(p50)
    keys = [key for key in COLUMNS if any(key in values for values in measured.values())]
    table = [["", *map(label, keys), "spread of p50", "within the spread of"]]
    for way in ordered:
        values = measured[way]
        cells = [
            number(key, statistics.median(values[key])) if key in values else "" for key in keys
        ]
        table.append([way, *cells, spread_text("p50_ns", p50[way]), notes.get(way, "")])
    return table


def peer_tables(title: str, rows: Rows) -> Titled:
    tables = [
        (f"{title}: p50", overview(rows, "p50_ns", "_ns")),
        (f"{title}: p50 until a byte of each page is read", overview(rows, "read_ns", "_ns")),
        (
            "Python: two messages on their way, a byte of each page read: bytes a second",
            overview(rows, "bytes_per_second", "bytes_per_second"),
        ),
    ]
    tables += [(f"{title}: {size}", size_table(each)) for size, each in by_size(rows).items()]
    if absences(rows):
        tables.append((f"{title}: what is absent", absent_table(rows)))
    return tables
