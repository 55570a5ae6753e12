"""A type of message for the tests with tensors on GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tensorbus as tb


@dataclass
class Frame(tb.Message, name="test.Frame"):
    image: Any
    depth: Any = None
    tags: dict[str, Any] = field(default_factory=dict)
