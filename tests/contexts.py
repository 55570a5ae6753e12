"""The contexts of torch.multiprocessing and of ours, for the tests that compare them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

OURS = "tensorbus.multiprocessing"
METHODS = ["fork", "spawn"]

all_methods = pytest.mark.parametrize("method", METHODS)


def context_of(library: str, method: str) -> Any:
    return importlib.import_module(library).get_context(method)
