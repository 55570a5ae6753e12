"""The contexts of torch.multiprocessing and of ours, for the tests that compare them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from support.harness import SANITIZED

OURS = "tensorbus.multiprocessing"
# The allocator of a sanitizer cannot be forked beside threads: a child may wait for its lock.
METHODS = ["spawn"] if SANITIZED else ["fork", "spawn"]

all_methods = pytest.mark.parametrize("method", METHODS)
# For programs of several processes. To the server of forks that has imported PyTorch everything
# goes as to one that is spawned, and each process that it starts takes milliseconds.
quick_methods = pytest.mark.parametrize("method", ["fork", "forkserver"])


def context_of(library: str, method: str) -> Any:
    context = importlib.import_module(library).get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["torch", "pytest"])
    return context
