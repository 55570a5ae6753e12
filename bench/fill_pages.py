"""Puts what a run measured into docs/performance.md and README.md, between their marks.

    python bench/fill_pages.py bench/results/report.json

A block begins with `<!-- bench: NAME -->` and ends with `<!-- end -->`. NAME is a benchmark's, or
one of the blocks below. What the run did not measure stays as it is.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from floor_table import QUEUES, floor_table
from goals import goals_table
from peer_tables import absent_table, by_size, overview, size_table
from plots import SHOWN
from tables import Rows, Table, as_markdown, number, table_of

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "docs" / "performance.md", ROOT / "README.md"]
BLOCK = re.compile(r"(<!-- bench: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
UNMEASURED = "*Not measured yet.*"

Report = dict[str, Any]  # "machine" and "results", as run.py writes them


def machine(report: Report, _: Path) -> str:
    rows = [[key, str(value)] for key, value in report["machine"].items()]
    return as_markdown([["machine", ""], *rows])


def goals(report: Report, _: Path) -> str:
    return as_markdown(goals_table(report["results"]))


def peers(report: Report) -> Rows:
    rows: Rows = report["results"]["python_peers"]
    return rows


def peers_in_hand(report: Report, _: Path) -> str:
    return as_markdown(overview(peers(report), "p50_ns", "_ns"))


def peers_read(report: Report, _: Path) -> str:
    return as_markdown(overview(peers(report), "read_ns", "_ns"))


def peers_stream(report: Report, _: Path) -> str:
    return as_markdown(overview(peers(report), "bytes_per_second", "bytes_per_second"))


def peers_large(report: Report, _: Path) -> str:
    return as_markdown(size_table(by_size(peers(report))["24.9 MB"]))


def peers_absent(report: Report, _: Path) -> str:
    return as_markdown(absent_table(peers(report)))


def short_table(rows: Rows) -> Table:
    """The ways that the plot shows."""
    sizes = by_size(rows)
    table = [["one way, torch tensor in hand, median", *sizes]]
    for way, (label, _, line) in SHOWN.items():
        medians = [
            number("_ns", statistics.median(each[way]["p50_ns"])) if way in each else ""
            for each in sizes.values()
        ]
        if any(medians):
            asleep = "" if line != "--" else ", asleep"
            table.append([f"{label}{asleep}", *medians])
    return table


def plot(name: str, alt: str, page: Path) -> str:
    folder = os.path.relpath(ROOT / "bench" / "results", page.parent)
    return f"![{alt}]({folder}/{name}.svg)"


def latency_plot(report: Report, page: Path) -> str:
    return plot("latency", "One way through each of them against the size of the tensor", page)


def throughput_plot(report: Report, page: Path) -> str:
    return plot("throughput", "Bytes a second through each of them", page)


def fan_out_plot(report: Report, page: Path) -> str:
    return plot("fan_out", "The publisher's time against the number of subscribers", page)


def memory_plot(report: Report, page: Path) -> str:
    return plot("memory", "Memory against the number of topics and participants", page)


def overview_peers(report: Report, _: Path) -> str:
    return as_markdown(short_table(peers(report)))


def overview_floors(report: Report, _: Path) -> str:
    return as_markdown(floor_table(report["results"]))


def overview_queues(report: Report, _: Path) -> str:
    table = floor_table(report["results"], QUEUES)
    table[0][-1] = "beside it"
    return as_markdown(table)


MAKERS = {
    "machine": machine,
    "goals": goals,
    "overview peers": overview_peers,
    "overview floors": overview_floors,
    "overview queues": overview_queues,
    "peers in hand": peers_in_hand,
    "peers read": peers_read,
    "peers stream": peers_stream,
    "peers large": peers_large,
    "peers absent": peers_absent,
    "plot latency": latency_plot,
    "plot throughput": throughput_plot,
    "plot fan out": fan_out_plot,
    "plot memory": memory_plot,
}
# The benchmark that a block is made of, where that is not its name.
SOURCES = {
    "overview peers": "python_peers",
    "overview floors": "polled_latency",
    "overview queues": "python_queue",
    "plot latency": "python_peers",
    "plot throughput": "python_peers",
    "plot fan out": "fan_out",
    "plot memory": "scale",
}


def source(name: str) -> str | None:
    """The benchmark without which there is nothing for a block."""
    if name.startswith("peers "):
        return "python_peers"
    return SOURCES.get(name, None if name in MAKERS else name)


def is_measured(name: str, report: Report) -> bool:
    bench = source(name)
    return bench is None or bench in report["results"]


def filled(text: str, report: Report, page: Path) -> str:
    def block(found: re.Match[str]) -> str:
        name, results = found[2], report["results"]
        if not is_measured(name, report):
            return found[0]
        make = MAKERS.get(name)
        content = make(report, page) if make else as_markdown(table_of(name, results[name]))
        return f"{found[1]}\n{content}\n\n{found[3]}"

    return BLOCK.sub(block, text)


def told(text: str, report: Report) -> str:
    """What was made of a page: which of its blocks this run has filled, and which it has not."""
    names = [found[2] for found in BLOCK.finditer(text)]
    missing = [name for name in names if not is_measured(name, report)]
    said = f"{len(names) - len(missing)} of {len(names)} blocks filled"
    if missing:
        said += f"; not in this run: {', '.join(missing)}"
    if unmeasured := text.count(UNMEASURED):
        said += f"; {unmeasured} never measured"
    return said


def main() -> None:
    report = json.loads(Path(sys.argv[1]).read_text())
    for page in PAGES:
        text = filled(page.read_text(), report, page)
        page.write_text(text)
        print(f"{page.relative_to(ROOT)}: {told(text, report)}")


if __name__ == "__main__":
    main()
