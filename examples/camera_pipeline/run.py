"""Runs the camera pipeline over Tensorbus and over torch.multiprocessing, and compares them."""

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import numpy as np

    import tensorbus as tb
    from picture import draw
    from plan import TIMEOUT, Schedule, relaxed_rate
    from processes import Failed, Processes
    from records import count_arrivals, read_features
    from reference import count_equal, reference
    from report import Progress, measures, table
except ModuleNotFoundError as missing:
    sys.exit(f"error: {missing}; ./scripts/demo installs what this needs")

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parents[1] / "build" / "demo"

NOTES = """\
  frames/s      of the last {full_speed} frames, sent as fast as they are taken;
                the network alone, in one process, does {alone:.1f}
  camera to,    one-way latency of the first {paced} frames, {rate} per second: from the call of
  model to      publish() or put() until the other process has the tensor in its hands; only
                of frames that found the model idle, so that no time in a queue is in it
  bytes copied  of tensors on their way; what the camera and the network write is not counted
  sink          with Tensorbus a C++ program without PyTorch; torch.multiprocessing needs Python
  equal         in every bit to the same network on the same frames in one process
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paced", type=int, default=80, metavar="FRAMES")
    parser.add_argument("--full-speed", type=int, default=100, metavar="FRAMES")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="for https://ui.perfetto.dev")
    arguments = parser.parse_args()
    if arguments.paced < 1 or arguments.full_speed < 2:
        parser.error("at least 1 paced frame and 2 at full speed are needed")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        with (OUTPUT / ".lock").open("w") as lock, tempfile.TemporaryDirectory() as folder:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failed("the demo is running already in this checkout") from None
            demo(Path(folder), arguments.paced, arguments.full_speed, arguments.trace)
    except (Failed, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("error: interrupted")


def demo(folder: Path, paced: int, full_speed: int, trace: Path | None) -> None:
    sink = build_sink()
    frames = paced + full_speed
    print(f"-- {frames} photographs of 1920x1080: camera, PyTorch, sink", flush=True)
    expected, alone = reference(frames, Progress("one process, to compare", frames).show)
    schedule = Schedule(paced, full_speed, relaxed_rate(alone))
    ours, theirs = folder / "tensorbus", folder / "torch"
    run_tensorbus(ours, schedule, sink, trace)
    run_torch(theirs, schedule)

    delivered = {
        "Tensorbus": read_features(ours / "features.bin"),
        "torch.multiprocessing": read_features(theirs / "features.bin"),
    }
    equal = {title: count_equal(expected, features) for title, features in delivered.items()}
    columns = {
        title: [*measures(results, paced), ("equal", f"{equal[title]} of {frames}")]
        for title, results in zip(equal, (ours, theirs), strict=True)
    }
    print(f"\n{table(columns)}\n")
    print(NOTES.format(full_speed=full_speed, alone=alone, paced=paced, rate=schedule.rate))
    print(f"-- what went through: {save_picture(ours, delivered['Tensorbus'])}")
    for title, count in equal.items():
        if count != frames:
            raise Failed(f"{title}: the features of {frames - count} frames are not equal")


def build_sink() -> Path:
    """Builds the C++ process as any project does that has the installed package."""
    print("-- building the C++ sink with find_package(tensorbus)", flush=True)
    build = OUTPUT / "sink"
    package = output_of("tensorbus-config", "--cmakedir").strip()
    settings = [f"-Dtensorbus_DIR={package}", "-DCMAKE_BUILD_TYPE=Release"]
    # --fresh: the folder may be left from another environment, or from a checkout that was moved.
    output_of("cmake", "--fresh", "-G", "Ninja", "-S", str(HERE), "-B", str(build), *settings)
    output_of("cmake", "--build", str(build))
    return build / "camera_sink"


def output_of(*command: str) -> str:
    program = shutil.which(command[0], path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        raise Failed(f"{command[0]} is missing; ./scripts/demo installs what this needs")
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        log = OUTPUT / "build.log"
        log.write_text(done.stdout + done.stderr)
        raise Failed(f"{command[0]} failed with {done.returncode} (see {log})")
    return done.stdout


def run_tensorbus(results: Path, schedule: Schedule, sink: Path, trace: Path | None) -> None:
    """Runs pipeline.toml; its processes leave their records in `results`."""
    results.mkdir()
    progress = Progress("Tensorbus", schedule.frames)
    domain = str(results / "domain")
    os.environ |= {
        "RESULTS": str(results),
        "FRAMES": str(schedule.frames),
        "SCHEDULE": " ".join(schedule.to_arguments()),
        "SINK": str(sink),
    }
    deadline = time.monotonic() + 2 * TIMEOUT + 2 * schedule.frames
    pipeline = tb.Pipeline.load(HERE / "pipeline.toml", domain)
    with traced(trace, {"TENSORBUS_DOMAIN": domain}):
        pipeline.start(log_dir=OUTPUT, quiet=True)
        with pipeline:
            while (status := ended(pipeline)) is None:
                if time.monotonic() > deadline:
                    raise Failed(f"the pipeline did not end (see {OUTPUT})")
                progress.show(count_arrivals(results / "sink.txt"))
    if status:
        raise Failed(f"a process of the pipeline failed (see {OUTPUT}/*.log)")
    progress.show(schedule.frames)


def ended(pipeline: tb.Pipeline) -> int | None:
    """The exit status of a pipeline that ends within a moment."""
    try:
        return pipeline.wait(timeout=0.1)
    except tb.Timeout:
        return None


def run_torch(results: Path, schedule: Schedule) -> None:
    """Runs the same over torch.multiprocessing, in one process with children."""
    results.mkdir()
    title = "torch.multiprocessing"
    progress = Progress(title, schedule.frames)
    command = [sys.executable, str(HERE / "torch_queue.py"), str(results)]
    with Processes({title: [*command, *schedule.to_arguments()]}, OUTPUT, {}) as processes:
        processes.wait(
            timeout=2 * TIMEOUT + 2 * schedule.frames,
            meanwhile=lambda: progress.show(count_arrivals(results / "sink.txt")),
        )
    progress.show(schedule.frames)


@contextlib.contextmanager
def traced(output: Path | None, domain: dict[str, str]) -> Iterator[None]:
    """Has `tensorbus trace` watch what runs meanwhile, if a file is given."""
    if output is None:
        yield
        return
    command = [sys.executable, "-m", "tensorbus", "trace", "--output", str(output)]
    tracer = subprocess.Popen(command, env={**os.environ, **domain})
    try:
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(60)


def save_picture(results: Path, features: np.ndarray) -> Path:
    path = OUTPUT / "pipeline.png"
    with np.load(results / "pictures.npz") as pictures:
        frames = {int(index): pictures[index] for index in list(pictures)[:4]}
    draw(frames, {index: features[index] for index in frames}).save(path)
    return path.relative_to(HERE.parents[1])


if __name__ == "__main__":
    main()
