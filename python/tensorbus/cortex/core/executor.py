"""Calling something again and again."""

from tensorbus.nodes import AsyncExecutor, RateExecutor, SyncRateExecutor

__all__ = ["AsyncExecutor", "RateExecutor", "SyncRateExecutor"]
