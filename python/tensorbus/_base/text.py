"""Text that can always be encoded: of exceptions from user code, and as JSON."""

from __future__ import annotations

import json
import math
from typing import Any


def text_of(error: BaseException) -> str:
    r"""`str(error)`, which can be encoded; a substitute if `str` itself raises.

    >>> text_of(OSError("caf\udce9"))
    'caf\\udce9'
    """
    try:
        text = str(error)
    except Exception as raised:
        return f"(its text raises {type(raised).__name__})"
    return encodable(text)


def encodable(text: str) -> str:
    """Replaces lone surrogates, as in file names that are not UTF-8, by escapes."""
    return text.encode(errors="backslashreplace").decode()


def json_text(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON (RFC 8259), which has no NaN, no infinity and no lone surrogates.

    NaN and infinities become strings, as in the JSON of Protocol Buffers; lone surrogates become
    escapes.

    >>> json_text({"range": float("nan"), "limits": (0.5, float("-inf"))})
    '{"range": "NaN", "limits": [0.5, "-Infinity"]}'
    """
    return json.dumps(_strict(value), indent=indent, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {_strict(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
