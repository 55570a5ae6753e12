"""Cortex's utilities: running a program, logging, fingerprints, serialization."""

from tensorbus.cortex.utils.hashing import compute_fingerprint
from tensorbus.cortex.utils.logging import get_logger, set_log_level
from tensorbus.cortex.utils.loop import run
from tensorbus.cortex.utils.serialization import deserialize, serialize

__all__ = [
    "compute_fingerprint",
    "deserialize",
    "get_logger",
    "run",
    "serialize",
    "set_log_level",
]
