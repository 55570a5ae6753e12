"""Running a program's coroutine."""

from tensorbus.nodes import run

__all__ = ["run"]
