"""What was measured, as plots: SVG files beside the report, on white, for light and dark pages."""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path
from typing import Any

from peer_tables import by_size
from tables import Rows

UNITS = {"B": 1, "KB": 1 << 10, "MB": 1_000_000}
# Those that the one plot in the README shows; the others are in the tables.
SHOWN = {
    "tensorbus loan, polled": ("tensorbus, polled", "#d62728", "-"),
    "iceoryx2, polled": ("iceoryx2, polled", "#ff7f0e", "-"),
    "floor: a word, polled": ("a bare word, polled", "#7f7f7f", ":"),
    "tensorbus loan": ("tensorbus", "#d62728", "--"),
    "iceoryx2": ("iceoryx2", "#ff7f0e", "--"),
    "floor: eventfd": ("a bare eventfd", "#7f7f7f", "--"),
    "Zenoh, shared memory": ("Zenoh, shared memory", "#9467bd", "--"),
    "pyzmq ipc": ("pyzmq ipc", "#2ca02c", "--"),
    "pipe": ("pipe", "#8c564b", "--"),
    "shared_memory + Queue, fresh": ("shared_memory + Queue", "#17becf", "--"),
    "torch.multiprocessing.Queue, fresh": ("torch Queue, fresh tensor", "#1f77b4", "--"),
    "Ray objects": ("Ray", "#bcbd22", "--"),
    "pickle over TCP": ("pickle over TCP", "#000000", "--"),
}


def bytes_of(size: str) -> float:
    count, unit = size.split()
    return float(count) * UNITS[unit]


def series(rows: Rows, key: str, way: str) -> tuple[list[float], list[float]]:
    """The sizes at which a way was measured, and the medians there."""
    points = sorted(
        (bytes_of(size), statistics.median(measured[way][key]))
        for size, measured in by_size(rows).items()
        if key in measured.get(way, {})
    )
    return [size for size, _ in points], [value for _, value in points]


def counted(rows: Rows, key: str, end: str) -> tuple[list[float], list[float]]:
    """Of rows "16 awake": the numbers, and the medians."""
    found = [(re.fullmatch(rf"(\d+) {end}", row), values) for row, values in rows.items()]
    points = [(float(m[1]), statistics.median(values[key])) for m, values in found if m]
    return [count for count, _ in points], [value for _, value in points]


def draw_ways(axes: Any, rows: Rows, key: str, scale: float) -> None:
    for way, (label, colour, line) in SHOWN.items():
        sizes, values = series(rows, key, way)
        if sizes:
            scaled = [value * scale for value in values]
            axes.plot(sizes, scaled, line, color=colour, marker="o", markersize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="size of the tensor, bytes")


def latency(axes: Any, results: dict[str, Rows]) -> None:
    draw_ways(axes, results["python_peers"], "p50_ns", 1e-3)
    axes.set(ylabel="one way, median, µs", title="Python, torch tensor in hand (dashed: asleep)")


def throughput(axes: Any, results: dict[str, Rows]) -> None:
    draw_ways(axes, results["python_peers"], "bytes_per_second", 1e-9)
    axes.set(ylabel="GB/s", title="Python, two on their way, a byte of each page read")


def fan_out(axes: Any, results: dict[str, Rows]) -> None:
    for end, label in (("awake", "awake, polled"), ("asleep", "asleep, a process each")):
        counts, values = counted(results["fan_out"], "publish_ns", end)
        axes.plot(counts, [value * 1e-3 for value in values], marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="subscribers", ylabel="publish(), median, µs")
    axes.set(title="C++, publisher's time for 64 B")
    axes.xaxis.set_major_formatter("{x:.0f}")


def memory(axes: Any, results: dict[str, Rows]) -> None:
    for end in ("topics?", "participants"):
        counts, values = counted(results["scale"], "pss_bytes", end)
        label = f"{end.rstrip('?')} (memory of each process)"
        axes.plot(counts, [value / 2**20 for value in values], marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="how many", ylabel="proportional set size, MiB")
    axes.set(title="C++, what a process with the bus takes")
    axes.xaxis.set_major_formatter("{x:.0f}")


PLOTS = {
    "latency": ("python_peers", latency),
    "throughput": ("python_peers", throughput),
    "fan_out": ("fan_out", fan_out),
    "memory": ("scale", memory),
}


def draw(results: dict[str, Rows], folder: Path) -> list[str]:
    """The names of the files that were written: one for each plot whose benchmark has run."""
    wanted = {name: plot for name, (bench, plot) in PLOTS.items() if bench in results}
    if not wanted:
        return []
    try:
        import matplotlib
    except ImportError:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return []
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tensorbus"  # the same figures, the same file
    from matplotlib import pyplot

    for name, plot in wanted.items():
        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        plot(axes, results)
        axes.grid(which="major", color="#dddddd")
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(folder / f"{name}.svg", facecolor="white", metadata={"Date": None})
        pyplot.close(figure)
    return [f"{name}.svg" for name in wanted]
