"""Recording beside `dd`, replay beside memory, and opening, 24.9 MB a message.

`each`: from the first message until all are in the file, divided by them. Both `dd` and the
recorder leave it to the kernel when the disk has them. `record, zstd` compresses frames that
compress well. `publish` is the median time of `publish` at 100 frames of 2 MB a second, with one
subscriber, with two, and with one and a recorder. A replay is as fast as it goes: `play` is
received and let go, `play, read` is read by its subscriber, a byte of each page; `memcpy` copies
the same bytes from the same mapping. At 1 kHz, `late` is by how much a message, or a sleep until a
time, comes too late.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tensorbus as tb
from harness.other_process import PATIENCE, die_with_parent, fork, other_process
from harness.report import is_quick, report, report_absent
from recordings.sparse import write_sparse
from recordings.writers import dd_ns, hdf5_ns, mcap_ns, zarr_ns

SIZE = 24_883_200
PAGE = 4096
# Less than the frames that are there: new memory is another benchmark.
BUFFER = 128 << 20
DEPTH = 2
SMALL = 1080 * 1920  # of a frame of the camera that is measured while it publishes
RATE = 100.0
TOPIC = "camera"
DISK = Path(__file__).resolve().parent.parent / "build"


def publish(link: Any, domain: str, count: int) -> None:
    """The other process: a camera that has no time to lose, and whose frames are there."""
    with tb.Publisher(TOPIC, domain=domain, reliable=True, timeout=PATIENCE, depth=4) as publisher:
        frames = [publisher.loan((SIZE,), dtype="uint8") for _ in range(8)]
        for frame in frames:
            frame.fill(1)
        del frame, frames
        link.send("ready")
        link.recv()
        publisher.wait_for_subscribers(timeout=PATIENCE)
        times = []
        for number in range(count):
            frame = publisher.loan((SIZE,), dtype="uint8", timeout=PATIENCE)
            frame[:PAGE] = number % 256
            begin = time.perf_counter_ns()
            publisher.publish(frame)
            times.append(time.perf_counter_ns() - begin)
            del frame
        link.send(median(times))


def record_ns(path: Path, count: int, compress: dict[str, str] | None = None) -> float:
    path.unlink(missing_ok=True)
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        other_process(publish, domain, count) as link,
    ):
        link.recv()
        recorder = tb.Recorder(
            path,
            TOPIC,
            reliable=True,
            buffer=BUFFER,
            depth=DEPTH,
            compress=compress,
            domain=domain,
        )
        begin = time.perf_counter_ns()
        link.send("begin")
        link.recv()
        if compress:
            recorder.close()
        while recorder.stats.messages < count and not recorder.stats.error:
            time.sleep(0.0002)
        end = time.perf_counter_ns()
        recorder.close()
        stats = recorder.stats
        if (stats.messages, stats.lost) != (count, 0):
            raise SystemExit(f"recorded {stats.messages} of {count}, {stats.lost} lost")
        return (end - begin) / count


def publish_paced(link: Any, domain: str, count: int, subscribers: int) -> None:
    """The other process: a camera that publishes at its rate."""
    with tb.Publisher(TOPIC, domain=domain, timeout=PATIENCE) as publisher:
        link.send("ready")
        link.recv()
        publisher.wait_for_subscribers(subscribers, timeout=PATIENCE)
        times = []
        due = time.monotonic()
        for number in range(count):
            frame = publisher.loan((SMALL,), dtype="uint8", timeout=PATIENCE)
            frame[:] = number % 256
            begin = time.perf_counter_ns()
            publisher.publish(frame)
            times.append(time.perf_counter_ns() - begin)
            del frame
            due += 1 / RATE
            time.sleep(max(due - time.monotonic(), 0))
        link.send(median(times))


def take(link: Any, domain: str) -> None:
    """Another process: a subscriber that lets go of what it gets."""
    die_with_parent()
    with tb.Subscriber(TOPIC, domain=domain, end_of_stream=True) as subscriber:
        link.send("ready")
        for sample in subscriber:
            del sample


@contextmanager
def taker(domain: str) -> Iterator[None]:
    """On the core of this process, and not on that of the publisher."""
    ours, theirs = fork.Pipe()
    process = fork.Process(target=take, args=(theirs, domain))
    process.start()
    try:
        ours.recv()
        yield
        process.join(PATIENCE)
    finally:
        process.kill()
        process.join()


def published_ns(path: Path, count: int, beside: str) -> float:
    """The median of `publish` with one subscriber, and beside it what is named."""
    path.unlink(missing_ok=True)
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        other_process(publish_paced, domain, count, 2 if beside else 1) as link,
        ExitStack() as stack,
    ):
        link.recv()
        stack.enter_context(taker(domain))
        if beside == "subscriber":
            stack.enter_context(taker(domain))
        if beside == "recorder":
            stack.enter_context(tb.Recorder(path, TOPIC, domain=domain))
        link.send("begin")
        found: float = link.recv()
        return found


def write(folder: Path, where: str, repetition: int, count: int) -> None:
    """What stands beside each other takes turns, into new files.

    The first one finds memory that the kernel has just got back: a virtual machine may take as long
    as a disk to get more.
    """
    path = folder / "run.mcap"
    dd_ns(path, count, SIZE)
    report(f"{where}: dd", repetition, each_ns=dd_ns(path, count, SIZE))
    report(f"{where}: tensorbus record", repetition, each_ns=record_ns(path, count))
    for name, write_ns in (("mcap package", mcap_ns), ("h5py", hdf5_ns), ("zarr", zarr_ns)):
        try:
            report(f"{where}: {name}", repetition, each_ns=write_ns(path, count, SIZE))
        except ImportError:
            if repetition == 0:
                report_absent(f"{where}: {name}", "it is not installed")
    zstd = record_ns(path, count, {TOPIC: "zstd"})
    report(f"{where}: tensorbus record, zstd", repetition, each_ns=zstd)
    path.unlink()


def publish_beside(path: Path, repetition: int, count: int) -> None:
    for beside, row in (
        ("", "publish: alone"),
        ("subscriber", "publish: beside a subscriber"),
        ("recorder", "publish: beside a recorder"),
    ):
        report(row, repetition, publish_ns=published_ns(path, count, beside))
    path.unlink()


def play(link: Any, domain: str, path: str) -> None:
    """The other process: plays as fast as it goes, and says how much of a CPU it has taken."""
    with tb.Player(path, rate=1e9, paused=True, domain=domain) as player:
        player.wait_for_subscribers(PATIENCE)
        link.recv()
        begin = time.process_time_ns()
        player.resume()
        player.wait(PATIENCE)
        link.send(time.process_time_ns() - begin)
        link.recv()
        if player.stats.bytes_copied:
            raise SystemExit("the player has copied")


def replay(path: Path, count: int, work: Callable[[Any], Any]) -> dict[str, float]:
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        other_process(play, domain, str(path)) as link,
        tb.Subscriber(TOPIC, depth=4, domain=domain, timeout=PATIENCE) as subscriber,
    ):
        subscriber.wait_for_publishers(timeout=PATIENCE)
        link.send("begin")
        begin = time.perf_counter_ns()
        for _ in range(count):
            work(subscriber.receive().data)
        end = time.perf_counter_ns()
        used = link.recv()
        link.send("end")
    return {"each_ns": (end - begin) / count, "player_cpu_ns": used / count}


def memcpy_ns(path: Path, count: int) -> float:
    target = np.empty(SIZE, np.uint8)
    target.fill(0)
    recording = tb.Recording(path, library="numpy")
    begin = time.perf_counter_ns()
    for index in range(count):
        np.copyto(target, recording[index].data)
    return (time.perf_counter_ns() - begin) / count


def late(path: Path, count: int) -> dict[str, float]:
    """Of a player of a recording that has a message each millisecond."""
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        tb.Player(path, domain=domain) as player,
    ):
        player.wait(PATIENCE)
        stats = player.stats
    return {"late_ns": stats.late_ns / count, "most_ns": stats.latest_ns}


def sleep_late(count: int) -> dict[str, float]:
    begin = time.monotonic()
    times = []
    for number in range(count):
        due = begin + number / 1000
        time.sleep(max(due - time.monotonic(), 0))
        times.append((time.monotonic() - due) * 1e9)
    return {"late_ns": mean(times), "most_ns": max(times)}


def open_ns(path: Path) -> float:
    begin = time.perf_counter_ns()
    recording = tb.Recording(path)
    recording[len(recording) // 2]
    return time.perf_counter_ns() - begin


def main() -> None:
    quick = is_quick(__doc__)
    count, repetitions = (20, 2) if quick else (80, 5)
    DISK.mkdir(exist_ok=True)
    with TemporaryDirectory(dir="/dev/shm") as shm, TemporaryDirectory(dir=DISK) as disk:
        memory, kept = Path(shm), Path(shm) / "kept.mcap"
        record_ns(kept, 20)
        ticks, sparse = memory / "ticks.mcap", Path(disk) / "sparse.mcap"
        ticked = 500 if quick else 2000
        write_sparse(ticks, ticked, 64, step_ns=1_000_000)
        write_sparse(sparse, 100_000, 1_000_000)
        for repetition in range(repetitions):
            write(memory, "tmpfs", repetition, 40)
            write(Path(disk), "disk", repetition, count)
            publish_beside(memory / "beside.mcap", repetition, 100 if quick else 300)
            report("replay: memcpy", repetition, each_ns=memcpy_ns(kept, 20))
            report("replay: play", repetition, **replay(kept, 20, lambda data: None))
            report(
                "replay: play, read",
                repetition,
                **replay(kept, 20, lambda data: data[::PAGE].max()),
            )
            report("1 kHz: sleep, late", repetition, **sleep_late(ticked))
            report("1 kHz: play, late", repetition, **late(ticks, ticked))
            report("open: 100 GB", repetition, each_ns=open_ns(sparse))
        if os.path.getsize(sparse) < 100e9:
            raise SystemExit("the large file is too small")


if __name__ == "__main__":
    main()
