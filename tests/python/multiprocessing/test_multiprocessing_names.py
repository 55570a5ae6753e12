"""Names and texts of torch.multiprocessing that programs rely on."""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import signal
import sys
import threading
from typing import Any

import pytest

from support.contexts import OURS
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")

both = pytest.mark.parametrize("library", ["torch.multiprocessing", OURS])


def abort_first(index: int, event: Any) -> None:
    if index == 0:
        os.kill(os.getpid(), signal.SIGABRT)
    event.wait()


def exit_first(index: int, event: Any) -> None:
    if index == 0:
        sys.exit(123)
    event.wait()


def raise_first(index: int, event: Any) -> None:
    if index == 0:
        raise ValueError("out of cheese")
    event.wait()


def fail_in_each_way(library: str) -> None:
    mp = importlib.import_module(library)
    spawn = importlib.import_module(f"{library}.spawn")
    messages: list[str] = []
    log = logging.getLogger(f"{library}.spawn")
    log.propagate = False
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    event = mp.get_context("fork").Event()
    for function, text in (
        (abort_first, "process 0 terminated with signal SIG(ABRT|IOT)$"),
        (exit_first, "process 0 terminated with exit code 123$"),
        (raise_first, "-- Process 0 terminated with the following error:\n.*cheese$"),
    ):
        messages.clear()
        with pytest.raises(spawn.ProcessException, match=f"(?s){text}") as raised:
            mp.start_processes(function, (event,), 2, start_method="fork")
        assert any(message.startswith("Terminating process ") for message in messages)
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@both
def test_the_end_of_a_process_is_told_in_pytorchs_words(warm: Warm, library: str) -> None:
    warm.run(fail_in_each_way, library)


def write_name(index: int, outbox: Any) -> None:
    outbox.put(index)


def start_in_parallel(library: str) -> None:
    mp = importlib.import_module(library)
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch", "pytest"])
    starting: set[int] = set()
    starts = context.Process.start

    def start(self: Any) -> None:
        starting.add(threading.get_ident())
        starts(self)

    context.Process.start = start
    outbox = context.SimpleQueue()
    for value, is_parallel in (("1", True), ("0", False)):
        os.environ[mp.ENV_VAR_PARALLEL_START] = value
        starting.clear()
        started = mp.start_processes(write_name, (outbox,), 3, False, start_method="forkserver")
        while not started.join():
            pass
        assert sorted(outbox.get() for _ in range(3)) == [0, 1, 2]
        assert [process.exitcode for process in started.processes] == [0, 0, 0]
        assert (threading.get_ident() not in starting) is is_parallel


@both
def test_pytorchs_variable_starts_the_processes_of_a_server_in_parallel(
    warm: Warm, library: str
) -> None:
    warm.run(start_in_parallel, library)


def name_threads(library: str) -> None:
    mp = importlib.import_module(library)
    mp._set_thread_name("loader of rows and columns")
    assert mp._get_thread_name() == "loader of rows "
    with open(f"/proc/self/task/{threading.get_native_id()}/comm") as name:
        assert name.read() == "loader of rows \n"


@both
def test_threads_have_names(warm: Warm, library: str) -> None:
    warm.run(name_threads, library)


def import_names(library: str) -> None:
    spawn = importlib.import_module(f"{library}.spawn")
    mp = importlib.import_module(library)
    assert mp.spawn is spawn.spawn
    assert spawn.start_processes is mp.start_processes
    assert spawn.ENV_VAR_PARALLEL_START == mp.ENV_VAR_PARALLEL_START == "TORCH_MP_PARALLEL_START"
    reductions = importlib.import_module(f"{library}.reductions")
    theirs = importlib.import_module("torch.multiprocessing.reductions")
    names = [name for name in vars(theirs) if name.startswith(("rebuild_", "reduce_"))]
    assert len(names) > 10
    for name in [*names, "StorageWeakRef"]:
        assert callable(getattr(reductions, name)), name
    with pytest.raises(AttributeError, match="rebuild_nothing"):
        reductions.rebuild_nothing  # noqa: B018


@pytest.mark.parametrize("module", ["connection", "managers", "pool"])
def test_modules_have_the_names_of_the_standard_librarys(module: str) -> None:
    theirs = importlib.import_module(f"multiprocessing.{module}")
    ours = importlib.import_module(f"tensorbus.multiprocessing.{module}")
    assert [name for name in vars(theirs) if not hasattr(ours, name)] == []


@both
def test_modules_have_pytorchs_names(warm: Warm, library: str) -> None:
    warm.run(import_names, library)


def reduce_by_hand() -> None:
    import torch

    reductions = importlib.import_module(f"{OURS}.reductions")
    tensor = torch.zeros(3)
    rebuild, arguments = reductions.reduce_tensor(tensor)  # PyTorch's, which shares it
    assert rebuild is reductions.rebuild_tensor
    shared = reductions.loads(reductions.dumps(tensor))  # moves it into memory of the bus
    rebuild, arguments = reductions.reduce_tensor(tensor)
    again = rebuild(*arguments)
    again.add_(1)
    assert shared.tolist() == tensor.tolist() == [1] * 3
    rebuild, arguments = reductions.reduce_storage(tensor.untyped_storage())
    assert rebuild(*arguments).data_ptr() == tensor.data_ptr()


def test_reducers_that_are_called_by_hand_keep_what_the_bus_has_shared(warm: Warm) -> None:
    warm.run(reduce_by_hand)
