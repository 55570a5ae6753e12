"""JSON that every parser reads."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON (RFC 8259), which has neither NaN, nor infinity, nor half surrogates.

    The numbers become strings, as in the JSON of Protocol Buffers; a half surrogate, as of a path
    that is not UTF-8, becomes its escape.

    >>> json_text({"range": float("nan"), "limits": (0.5, float("-inf"))})
    '{"range": "NaN", "limits": [0.5, "-Infinity"]}'
    """
    return json.dumps(_strict(value), indent=indent, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_strict(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
