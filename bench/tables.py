"""What was measured, as tables: rows of text, for the terminal and for Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from harness.figures import indistinct

# row -> key -> one value for each repetition; "absent" -> why there is no other key
Rows = dict[str, dict[str, list[float]]]
Table = list[list[str]]

TITLES = {
    "polled_latency": "One way, the receiver polls",
    "size_latency": "One way at every size, polled and asleep",
    "cpp_peers": "C++: one way at every size, polled, beside a peer",
    "blocking_latency": "One way, the receiver sleeps",
    "copied_publish": "publish() of what is not in a loan",
    "cpp_api": "C++: a call through the public headers, beside one of the classes inside",
    "service_call": "C++: a call of a service of another process, through the public headers",
    "message_rate": "Messages of 64 B a second, none lost",
    "soak": "A million messages of 64 B: before (0: after the warm-up) and after",
    "idle": "An idle participant, over the same process without one",
    "fan_out": "publish() of 64 B to many subscribers",
    "scale": "Many topics of two processes, many participants of one domain",
    "python_latency": "Python: one way, the receiver polls",
    "python_messages": "Python: a call with an everyday message, both ends in one process",
    "python_peers": "Python: one way, a torch tensor in hand",
    "python_asyncio": "Python: one way into an event loop",
    "python_rate": "Python: messages a second, none lost",
    "python_pool": "Python: a worker pool's items",
    "python_pages": "Python: 24 MiB of memory that is new, in pages of 4 KiB and in huge pages",
    "python_start": "Python: from nothing to the first message",
    "python_import": "Python: what an import takes, in a process of its own",
    "python_command": "what a command of `tensorbus` takes, from start to end",
    "python_queue": "Python: queues, one way, the receiver sleeps; and handles",
    "python_items": "Python: small items through queues, and services; everybody sleeps",
    "python_multiprocessing": "Python: everyday items of `multiprocessing`, over three modules",
    "python_training": "Python: batches, trajectories and requests of whole programs",
    "python_relay": "Python: small items through three processes",
    "python_nodes": "Python: a node's callbacks, and their answers",
    "python_graph": "Python: ten nodes in a graph, 300 kB at 100 Hz, on two cores",
    "python_recording": "Python: recording to memory and to a disk, replay; 24.9 MB a message",
    "python_bridge": "Python: 24.9 MB from one machine to another, over veth",
    "python_machines": "Python: small messages, many machines and many topics, over veth",
    "python_inspection": "Python: a reliable topic of 1,000 messages a second, beside an inspector",
    "python_gil": "Python: how often a second another thread counts",
    "python_threads": "Python: messages a second, by one thread and by one on each core",
}
# Those that need a GPU, and run with --gpu alone.
GPU_TITLES = {
    "cuda_round_trip": "GPU: there and back, both ends poll",
    "python_cuda": "GPU, Python: there and back, both ends poll; and attaching",
    "python_cuda_rate": "GPU, Python: tensors as fast as they go",
    "python_cuda_peers": "GPU, Python: 24.9 MB there and back, both ends sleep",
    "cuda_copies": "GPU: 24.9 MB to and from main memory",
    "cuda_order": "GPU: the order of two streams",
}
# A floor that begins so is that of the row's own group: "24.9 MB: ...", "uvloop: ...".
SAME_GROUP = ": "
FLOORS = {
    "polled_latency": "line, half a round trip",
    "size_latency": "line, half a round trip",
    "cpp_peers": "line, half a round trip",
    "blocking_latency": "futex",
    "copied_publish": SAME_GROUP + "memcpy to a memfd",
    "cpp_api": "inside",
    "message_rate": "bare ring",
    "python_latency": "line, polled in Python",
    "python_messages": "torch loan",
    "python_asyncio": SAME_GROUP + "eventfd",
    "python_pool": SAME_GROUP + "torch Pool",
    "python_pages": "4 KiB pages",
    "python_import": "pass",
    "python_command": "pass",
    "python_queue": "eventfd, a round trip",
    "python_items": SAME_GROUP + "topic, there and back",
    "python_multiprocessing": SAME_GROUP + "multiprocessing",
    "python_training": SAME_GROUP + "torch",
    "python_relay": "64 bytes, multiprocessing.Queue",
    "python_nodes": "for sample in subscriber",
    "python_recording": SAME_GROUP + "dd",
    "python_bridge": "iperf3",
    "python_machines": "64 B, TCP",
    "python_inspection": "alone",
    "python_gil": "alone",
    "python_threads": SAME_GROUP + "one thread",
    "cuda_round_trip": "by hand, events",
    "python_cuda": "24.9 MB, main memory",
    "python_cuda_rate": "tensorbus topic, one 24.9 MB",
    "python_cuda_peers": "tensorbus topic",
    "cuda_copies": SAME_GROUP + "driver, pinned",
    "cuda_order": SAME_GROUP + "event",
}

# Rows that take their turns apart from that, by how their names end; "": no row is their floor.
OTHER_FLOORS = {
    "size_latency": {"pages read": "", "asleep": "futex", "futex": "futex", "eventfd": "futex"},
    "python_machines": {"killed": ""},
    "python_recording": {
        "memcpy": "replay: memcpy",
        "play": "replay: memcpy",
        "read": "replay: memcpy",
        "late": "1 kHz: sleep, late",
        "GB": "",
        "alone": "publish: alone",
        "subscriber": "publish: alone",
        "recorder": "publish: alone",
    },
}


def number(key: str, value: float) -> str:
    if key.endswith("_ns"):
        if value >= 1e9:
            return f"{value / 1e9:.2f} s"
        if value >= 1e6:
            return f"{value / 1e6:.2f} ms"
        return f"{value / 1e3:.1f} us" if value >= 1e4 else f"{value:.0f} ns"
    if key.endswith("_bytes"):
        return f"{value / 1024:,.0f} KiB"
    if key == "bytes_per_second":
        return f"{value / 1e9:.2f} GB/s"
    if key.endswith("_per_gb"):
        return f"{value:.2f} s/GB"
    if key == "per_second":
        return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:.0f} k"
    return f"{value:,.0f}" if value == int(value) else f"{value:.1f}"


def ratios(row: list[float], floor: list[float]) -> list[float]:
    """One for each repetition: what was measured side by side is compared."""
    return [a / b for a, b in zip(row, floor, strict=True)]


def spread_text(key: str, values: Sequence[float]) -> str:
    return f"{number(key, min(values))} - {number(key, max(values))}"


def label(key: str) -> str:
    for unit in ("_ns", "_bytes", "_per_gb"):
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def floor_of(name: str, row: str) -> str:
    """The row that stands under this one, or ""."""
    others = OTHER_FLOORS.get(name, {})
    floor = next((floor for end, floor in others.items() if row.endswith(end)), FLOORS[name])
    return row.partition(SAME_GROUP)[0] + floor if floor.startswith(SAME_GROUP) else floor


def timed_table(name: str, rows: Rows) -> Table:
    """Medians, their spread, and which row that is wider than the way to its neighbour."""
    absent = {row: str(values["absent"][0]) for row, values in rows.items() if "absent" in values}
    rows = {row: values for row, values in rows.items() if row not in absent}
    if not rows:
        return [["", ""], *([row, f"absent: {why}"] for row, why in absent.items())]
    keys = list(dict.fromkeys(key for values in rows.values() for key in values))
    mains = {row: next(iter(values)) for row, values in rows.items()}  # what a row is about
    has_floor = name in FLOORS
    notes = indistinct(
        {row: values[keys[0]] for row, values in rows.items() if mains[row] == keys[0]}
    )
    ends = [
        "spread",
        *(["x floor"] if has_floor else []),
        *(["within the spread of"] if notes else []),
    ]
    table = [["", *map(label, keys), *ends]]
    for row, values in rows.items():
        medians = [
            number(key, statistics.median(values[key])) if key in values else "" for key in keys
        ]
        main = mains[row]
        cells = [row, *medians, spread_text(main, values[main])]
        if has_floor:
            floor = floor_of(name, row)
            times = ratios(values[main], rows[floor][main]) if mains.get(floor) == main else []
            cells.append(f"{statistics.median(times):.2f}" if times else "")
        table.append([*cells, *([notes.get(row, "")] if notes else [])])
    rest = [""] * (len(table[0]) - 2)
    return table + [[row, f"absent: {why}", *rest] for row, why in absent.items()]


def soak_table(rows: Rows) -> Table:
    table = [["", "before", "after"]]
    for row, values in rows.items():
        for key, series in values.items():
            table.append([f"{row}: {label(key)}", number(key, series[0]), number(key, series[-1])])
    return table


def idle_table(rows: Rows) -> Table:
    table = [["", "rss", "pss", "cpu a second", "wake-ups a second"]]
    for row, values in rows.items():
        median = {key: statistics.median(series) for key, series in values.items()}
        table.append(
            [
                row,
                number("rss_bytes", median["rss_bytes"]),
                number("pss_bytes", median["pss_bytes"]),
                number("cpu_ns", median["cpu_ns_per_second"]),
                number("", median["wake_ups_per_second"]),
            ]
        )
    return table


def graph_table(rows: Rows) -> Table:
    keys = ["sent", "received", "dropped", "lost", "p50_ns", "p99_ns"]
    table = [["", *(key.removesuffix("_ns") for key in keys)]]
    for row, values in rows.items():
        cells = [number(key, values[key][0]) if key in values else "" for key in keys]
        table.append([row, *cells])
    return table


def table_of(bench: str, rows: Rows) -> Table:
    makers: dict[str, Callable[[Rows], Table]] = {
        "soak": soak_table,
        "idle": idle_table,
        "python_graph": graph_table,
    }
    return makers[bench](rows) if bench in makers else timed_table(bench, rows)


def as_text(table: Table) -> str:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_markdown(table: Table) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in table]
    rule = "|---|" + "---:|" * (len(table[0]) - 1)
    return "\n".join([head, rule, *body])
