"""Loggers that write to stdout."""

from __future__ import annotations

import logging
import sys


def get_logger(name: str, level: int = logging.INFO) -> logging.Logger:
    """A logger that writes to stdout and does not propagate.

    A logger that already has handlers is returned unchanged.
    """
    logger = logging.getLogger(name)
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(
            logging.Formatter("%(asctime)s | %(levelname)s | %(message)s", "%H:%M:%S")
        )
        logger.addHandler(handler)
        logger.propagate = False
        _set(logger, level)
    return logger


def set_log_level(logger: logging.Logger, level: str) -> None:
    """Sets the level of a logger and its handlers, by name; an unknown name means INFO."""
    _set(logger, getattr(logging, level.upper(), logging.INFO))


def _set(logger: logging.Logger, level: int) -> None:
    logger.setLevel(level)
    for handler in logger.handlers:
        handler.setLevel(level)
