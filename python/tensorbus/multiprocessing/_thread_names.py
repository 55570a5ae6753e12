"""The name of a thread, as `ps` and `top` show it; `torch.multiprocessing` has the same two."""

from __future__ import annotations

import ctypes

_PR_SET_NAME = 15
_PR_GET_NAME = 16
_NAME_BYTES = 16  # Linux's TASK_COMM_LEN: 15 and a zero


def _set_thread_name(name: str) -> None:
    """Names the calling thread; the system keeps the first 15 bytes."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def _get_thread_name() -> str:
    """The name of the calling thread."""
    name = ctypes.create_string_buffer(_NAME_BYTES)
    ctypes.CDLL(None).prctl(_PR_GET_NAME, name, 0, 0, 0)
    return name.value.decode(errors="replace")
