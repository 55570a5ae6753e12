"""Programs in processes of their own that need not import PyTorch, which takes a second.

A server has imported PyTorch, and nothing of ours. It forks for each program, which runs a function
of a module of tests and then ends as any interpreter does. To such a process it is as if it had
imported PyTorch first, and by itself.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from support.harness import PATIENCE, Elsewhere, Process, hear, tell


class Warm:
    """The server, in the hands of the tests. It is started when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._elsewhere = Elsewhere(folder)
        self._folder = folder
        self._runs = 0
        self._server: Process | None = None

    def run(self, function: Callable[..., None], *arguments: object) -> None:
        """Runs it in a process of its own, which must end well and without a word."""
        if self._server is None:
            server = self._elsewhere.start(serve)
            assert server.hear(3 * PATIENCE) == "ready"  # it imports much, beside other tests
            self._server = server
        self._runs += 1
        output = self._folder / f"{function.__name__}_{self._runs}"
        folder = str(Path(inspect.getfile(function)).parent)
        program = (folder, function.__module__, function.__name__, arguments)
        self._server.tell((*program, os.environ["TENSORBUS_DOMAIN"], str(output)))
        child = self._server.hear()
        try:
            code = self._server.hear(2 * PATIENCE)  # it may have lost its own patience
        except AssertionError:
            os.kill(child, signal.SIGKILL)
            code = self._server.hear()
        said = output.read_text()
        assert (code, said) == (0, ""), f"exit code {code}\n{said}"

    def finish(self) -> None:
        self._elsewhere.finish()


def serve() -> None:
    import pytest  # noqa: F401  (programs use it)
    import torch._dynamo  # noqa: F401  (its optimizers import it, which takes as long again)

    gc.freeze()  # or each program would go through all that PyTorch has made, and copy its pages
    tell("ready")
    while True:
        folder, module, function, arguments, domain, output = hear()
        child = os.fork()
        if child == 0:
            sys.path.insert(0, folder)
            os.environ["TENSORBUS_DOMAIN"] = domain
            take_output(output)
            getattr(importlib.import_module(module), function)(*arguments)
            return
        tell(child)
        tell(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def take_output(path: str) -> None:
    """Of this process and those it starts: to a file, away from the server's commands."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(file)
