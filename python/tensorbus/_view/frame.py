"""What goes to the page: a JSON object, and the bytes that belong to it.

u32 little-endian: bytes of the JSON | the JSON | pixels, points or values
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import json


@dataclass
class Frame:
    """A JSON object, and the bytes that the page draws."""

    header: dict[str, Any]
    payload: bytes = b""

    def encoded(self) -> bytes:
        """NaN and infinity are null."""
        header = json.encode(self.header)
        return len(header).to_bytes(4, "little") + header + self.payload
