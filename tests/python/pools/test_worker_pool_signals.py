"""Worker pools and signals: to the group of the processes, and to what a worker starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.harness import PATIENCE, SANITIZED, eventually
from support.pipelines import alive as is_alive
from support.pipelines import state

SERVER = """
import os, signal, sys
from pathlib import Path
import tensorbus as tb

def work(item):
    Path(sys.argv[1], f"begun{item}").touch()
    while not Path(sys.argv[1], "go").exists():
        os.sched_yield()
    return item

if __name__ == "__main__":
    os.setsid()
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    with tb.WorkerPool(work, workers=2, context="fork") as pool:
        futures = [pool.submit(item) for item in range(4)]
        while len(os.listdir(sys.argv[1])) < 2:
            os.sched_yield()
        os.killpg(0, signal.SIGTERM)
        Path(sys.argv[1], "go").touch()
    print(len(stopped), [future.result() for future in futures])
"""


def test_a_signal_to_the_group_leaves_the_end_to_the_process_of_the_pool(tmp_path: Path) -> None:
    """As service managers do by default: all accepted items are finished."""
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    folder = tmp_path / "files"
    folder.mkdir()
    command = [sys.executable, program, folder]
    result = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE)
    assert result.stdout == "1 [0, 1, 2, 3]\n", result.stderr


CHILDREN = """
import multiprocessing, os, signal, subprocess, sys, time
import tensorbus as tb

def forks(_):
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
    child.start()
    child.terminate()  # the default of a child
    child.join()
    program = subprocess.Popen(["sleep", "1000"])
    program.terminate()
    return child.exitcode, program.wait()

if __name__ == "__main__":
    with tb.WorkerPool(forks, workers=1, context=sys.argv[1]) as pool:
        print(pool.submit(0).result())
"""


def test_a_handler_that_raises_during_a_fork_leaves_no_signal_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As that of an alarm; `pthread_sigmask` runs handlers when it has set the mask."""
    from tensorbus._pools import worker_signals

    set_mask = signal.pthread_sigmask

    def interrupted(how: int, which: Any) -> Any:
        set_mask(how, which)
        raise TimeoutError

    with monkeypatch.context() as patch:
        patch.setattr(signal, "pthread_sigmask", interrupted)
        with pytest.raises(TimeoutError):
            worker_signals._block()
    worker_signals._unblock()
    assert signal.SIGTERM not in set_mask(signal.SIG_BLOCK, [])
    with monkeypatch.context() as patch:
        calls = iter([set_mask, interrupted])
        patch.setattr(signal, "pthread_sigmask", lambda *given: next(calls)(*given))
        with pytest.raises(TimeoutError):
            worker_signals._block()
        assert signal.SIGTERM in set_mask(signal.SIG_BLOCK, [])
    worker_signals._unblock()
    assert signal.SIGTERM not in set_mask(signal.SIG_BLOCK, [])


# Under the sanitizer, what a worker forks beside its threads may wait for the allocator for ever.
@pytest.mark.parametrize("method", ["spawn"] if SANITIZED else ["fork", "spawn"])
def test_what_a_worker_starts_ends_by_sigterm(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(CHILDREN)
    command = [sys.executable, program, method]
    result = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE)
    assert result.stdout == "(-15, -15)\n", result.stderr


STUCK = """
import os, signal, sys, threading
import tensorbus as tb

def work(item):
    print(os.getpid(), flush=True)
    threading.Event().wait()

if __name__ == "__main__":
    os.setsid()
    pool = tb.WorkerPool(work, workers=2, context=sys.argv[1])
    futures = [pool.submit(item) for item in range(2)]
    futures[0].result()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_end_with_a_pool_that_sigterm_has_ended(method: str, tmp_path: Path) -> None:
    """In the middle of their tasks: the whole group got the signal."""
    program = tmp_path / "program.py"
    program.write_text(STUCK)
    with subprocess.Popen(
        [sys.executable, program, method], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        pids = [int(server.stdout.readline()) for _ in range(2)]
        # Python misses a signal in the moment before a thread begins to wait.
        eventually(lambda: all(state(pid) == "S" for pid in pids))
        os.killpg(server.pid, signal.SIGTERM)
        assert server.wait(PATIENCE) == -signal.SIGTERM
        eventually(lambda: not any(is_alive(pid) for pid in pids))
