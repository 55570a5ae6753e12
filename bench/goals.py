"""What the figures are to be, and whether they are."""

from __future__ import annotations

from item_goals import ITEM_GOALS
from judges import (
    Goal,
    beside_goal,
    call_goal,
    fan_out_goal,
    faster_at_all_sizes_goal,
    faster_goal,
    floor_goal,
    graph_goal,
    headers_goal,
    idle_goal,
    latency_goal,
    pages_goal,
    per_second_goal,
    program_goal,
    rate_goal,
    recording_goal,
    scale_goal,
    share_goal,
    size_goal,
    soak_goal,
    start_goal,
    threads_goal,
    time_goal,
)
from tables import SAME_GROUP, Rows, Table

GOALS: list[tuple[str, str, Goal]] = [
    (
        "polled_latency",
        "C++ polled: p50 <= max(2.5 x line, line + 250 ns)",
        latency_goal(" loan"),
    ),
    (
        "size_latency",
        "C++ polled, any size: p50 <= max(2.5 x line, line + 250 ns)",
        latency_goal(", polled"),
    ),
    (
        "size_latency",
        "C++ asleep, any size: p50 <= 1.25 x futex",
        floor_goal(", asleep", "futex", 1.25),
    ),
    (
        # iceoryx2 has no package for C++ here: see bench/README.md.
        "cpp_peers",
        "C++ polled, any size: faster than iceoryx (Debian's, not iceoryx2) in the same run",
        faster_at_all_sizes_goal("iceoryx (2.x of Debian)"),
    ),
    ("blocking_latency", "C++ asleep: p50 <= 1.25 x futex", floor_goal("asleep", "futex", 1.25)),
    (
        "message_rate",
        "C++, 64 B a second, none lost: >= 5 M",
        per_second_goal(5e6, "64 B inline"),
    ),
    (
        "message_rate",
        "C++, rows of 64 B a second, many at once, none lost: >= 20 M",
        per_second_goal(2e7, "64 B rows"),
    ),
    ("fan_out", "each further subscriber that is awake < 60 ns", fan_out_goal),
    ("scale", "1,000 topics: discovery < 1 s, idle CPU 0", scale_goal),
    ("cpp_api", "receiving through the public headers: < 100 ns more", headers_goal),
    (
        "service_call",
        "C++, a service call, polled: p50 < 2 us",
        time_goal("service call, polled", "p50_ns", 2_000),
    ),
    (
        "copied_publish",
        "a tensor that is not in a loan, 1 MB and more: <= 1.05 x memcpy to a memfd",
        floor_goal("MB: publish() with a copy", SAME_GROUP + "memcpy to a memfd", 1.05),
    ),
    (
        "copied_publish",
        "the same, until its subscriber has read it: <= 1.05 x memcpy to a memfd and reading that",
        floor_goal(
            "MB, read: publish() with a copy, until it is read",
            SAME_GROUP + "memcpy to a memfd, until it is read",
            1.05,
        ),
    ),
    ("soak", "no growth over a million messages", soak_goal),
    ("idle", "an idle participant: < 3 MiB, no CPU time", idle_goal),
    (
        "python_latency",
        "Python, 24.9 MB torch loan: p50 < 8 us",
        time_goal("24.9 MB torch loan", "p50_ns", 8_000),
    ),
    ("python_latency", "Python, 64 bytes: p50 < 3 us", time_goal("bytes 64", "p50_ns", 3_000)),
    (
        "python_latency",
        "Python, 100-tensor dict: p50 <= 1.5 us a tensor",
        time_goal("100-tensor dict", "per_tensor_ns", 1_500),
    ),
    (
        "python_peers",
        "Python, polled, 24.9 MB, loan() too: p50 <= 8 us",
        time_goal("24.9 MB: tensorbus loan, polled", "p50_ns", 8_000),
    ),
    (
        "python_peers",
        "Python, polled, 24.9 MB: >= 1,000 x faster than pickle over TCP",
        faster_goal("pickle over TCP", 1000),
    ),
    (
        "python_peers",
        "Python, polled, 24.9 MB: >= 100 x faster than a torch Queue, fresh",
        faster_goal("torch.multiprocessing.Queue, fresh", 100),
    ),
    (
        "python_peers",
        "Python, polled, 24.9 MB: faster than iceoryx2",
        faster_goal("iceoryx2, polled", 1),
    ),
    (
        "python_peers",
        "Python, polled, 64 B: faster than iceoryx2",
        faster_goal("iceoryx2, polled", 1, "64 B"),
    ),
    (
        "python_asyncio",
        "asyncio, uvloop: <= 1.5 x an eventfd in the same loop, bytes",
        floor_goal("64 bytes", SAME_GROUP + "eventfd", 1.5),
    ),
    (
        "python_asyncio",
        "asyncio, uvloop: <= 1.5 x an eventfd in the same loop, tensors",
        floor_goal("torch loan", SAME_GROUP + "eventfd", 1.5),
    ),
    (
        "python_rate",
        "Python, 64 bytes a second, none lost: >= 400 k",
        per_second_goal(4e5, "tensorbus", floor="tensorbus, rows of an array"),
    ),
    (
        "python_rate",
        "Python, rows of 64 B a second, many at once, none lost: >= 2 M",
        per_second_goal(2e6, "tensorbus, rows"),
    ),
    (
        "python_recording",
        "recording to tmpfs: >= 0.9 x dd in the same run",
        recording_goal("tmpfs", 0.9),
    ),
    (
        "python_recording",
        "recording to a disk: >= 0.9 x dd in the same run",
        recording_goal("disk", 0.9),
    ),
    (
        "python_recording",
        "publish beside a recorder, 2 MB at 100 Hz: median <= 1.05 x alone",
        beside_goal("publish: beside a recorder", "publish: alone", "publish_ns", 1.05),
    ),
    (
        "python_recording",
        "replay, 24.9 MB: a message in < 100 us (250 GB/s of frames)",
        time_goal("replay: play", "each_ns", 100_000),
    ),
    (
        "python_recording",
        "opening a recording of 100 GB, 100,000 messages: < 50 ms",
        time_goal("open: 100 GB", "each_ns", 50_000_000),
    ),
    (
        "python_messages",
        "Python, {id, image}: <= 1.6 x a lone torch loan, each way",
        call_goal(1.6, "{id, image}"),
    ),
    (
        "python_messages",
        "Python, typed messages: <= 2.5 x a lone torch loan, each way",
        call_goal(2.5, "TensorMessage", "ImageMessage"),
    ),
    (
        "python_messages",
        "Python, NumPy loans: <= 1.2 x torch's",
        call_goal(1.2, "numpy loan"),
    ),
    (
        "python_messages",
        "Python, NumPy arrays: <= 1.2 x torch's tensors",
        call_goal(1.2, "numpy array, 256 B", floor="torch tensor, 256 B"),
    ),
    (
        "python_messages",
        "Python, loan() of NumPy: <= 1.2 x torch's",
        call_goal(1.2, "loan() of numpy", floor="loan() of torch"),
    ),
    (
        "python_messages",
        "Python, 4 and 5 dimensions: <= 1.1 x a torch loan of 3, each way",
        call_goal(1.1, "4-D torch loan", "5-D torch loan"),
    ),
    (
        "python_messages",
        "Python, 100 tensors: publish() <= 0.6 us a tensor",
        time_goal("100 tensors", "publish_ns", 600),
    ),
    (
        "python_messages",
        "Python, 100 tensors: receive() and data <= 0.6 us a tensor",
        time_goal("100 tensors", "receive_ns", 600),
    ),
    (
        "python_pages",
        "24 MiB in huge pages: written >= 3 x, read >= 5 x, given back >= 10 x as fast",
        pages_goal("huge pages", written=3, read=5, freed=10),
    ),
    *ITEM_GOALS,
    (
        "python_import",
        "import tensorbus < 60 ms over a bare interpreter",
        start_goal(60, "import tensorbus"),
    ),
    (
        "python_command",
        "commands in C++ take less than an interpreter that does nothing",
        start_goal(0, "tensorbus"),
    ),
    (
        "python_command",
        "commands in Python < 300 ms over a bare interpreter",
        start_goal(300, "in Python"),
    ),
    (
        "python_training",
        "a DataLoader with our context, batches let go or kept: >= 5 x as fast as with PyTorch's",
        program_goal(5, "a batch, let go", "a batch, kept"),
    ),
    (
        "python_training",
        "actors and a learner, a server with batches: faster than torch.multiprocessing",
        program_goal(1, "a trajectory", "a request"),
    ),
    (
        "python_graph",
        "ten nodes, 300 kB at 100 Hz on two cores: no drop",
        graph_goal,
    ),
    (
        "python_gil",
        "another thread keeps >= 0.9 of its pace beside receive()",
        share_goal("beside receive() that waits", 0.9),
    ),
    (
        "python_gil",
        "another thread keeps >= 0.5 of its pace beside a copy",
        share_goal("beside publish() that copies", 0.5),
    ),
    (
        "python_threads",
        "without a GIL: 4 threads receive >= 3 x as fast as one, 2 threads >= 1.8 x",
        threads_goal("receive", of_2=1.8, others=3),
    ),
    (
        "python_inspection",
        "a reliable topic keeps >= 0.99 of its rate beside top",
        share_goal("beside top", 0.99),
    ),
    (
        "python_inspection",
        "a reliable topic keeps >= 0.99 of its rate beside view",
        share_goal("beside view", 0.99),
    ),
    (
        "cuda_round_trip",
        "GPU, 24.9 MB there and back: p50 < 15 us",
        time_goal("24.9 MB", "p50_ns", 15_000),
    ),
    (
        "python_cuda",
        "GPU, Python, 24.9 MB there and back: p50 < 60 us",
        time_goal("24.9 MB", "p50_ns", 60_000),
    ),
    ("cuda_round_trip", "GPU, 4 GiB as fast as 24.9 MB", size_goal("4 GiB")),
    ("python_cuda", "GPU, Python, 4 GiB as fast as 24.9 MB", size_goal("4 GiB")),
    ("python_cuda_rate", "GPU, Python: >= 5 x torch.multiprocessing.Queue", rate_goal),
]


def goals_table(results: dict[str, Rows]) -> Table:
    table = [["goal", "measured", ""]]
    for bench, title, judge in GOALS:
        if bench in results and (judged := judge(results[bench])) is not None:
            met, text = judged
            table.append([title, text, "met" if met else "MISSED"])
    return table
