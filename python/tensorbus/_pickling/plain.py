"""Everyday values as a message, without looking for tensors: numbers, texts, small containers.

Their pickle is the C pickler's. The message is the one that `pickler` makes of any object, in a
form that is recognised by its first bytes.
"""

from __future__ import annotations

from tensorbus._core import is_plain, plain_fields, plain_pickle

__all__ = ["is_plain", "plain_fields", "plain_pickle"]
