"""The parents of what a C++ program publishes, as a tracer sees them."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.programs.cpp_programs import MARKS
from tensorbus._trace.events import PARENT, RELEASE, USE
from tensorbus._trace.recording import Recording

pytestmark = MARKS


def test_callbacks_of_an_executor_and_what_a_program_names(tmp_path: Path) -> None:
    config = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    flags = subprocess.check_output([config, "--cflags", "--libs"], text=True).split()
    program = tmp_path / "parents"
    source = Path(__file__).parent / "parents.cpp"
    subprocess.run(["c++", "-std=c++20", source, "-o", program, *flags], check=True)
    with tb.Publisher("camera") as camera:
        running = subprocess.Popen([program])
        assert camera.wait_for_subscribers(timeout=PATIENCE)
        found = Recording([], None)

        def both_are_traced() -> bool:
            found._poll()
            return [source.state for source in found.sources] == ["traced"] * 2

        eventually(both_are_traced)
        camera.publish(0)
        camera.publish(1)
        assert running.wait(PATIENCE) == 0
        found.end()
    events = found.events()
    made = {
        (found.topic_of(event.child), event.child.sequence, event.sample.sequence)
        for event in events
        if event.kind == PARENT and event.child is not None
    }
    assert made == {("boxes", 0, 0), ("boxes", 1, 1), ("pair", 0, 0), ("pair", 0, 1)}
    kinds = [event.kind for event in events]
    assert kinds.count(RELEASE) == 2
    assert USE not in kinds  # a sample comes with its pointers
