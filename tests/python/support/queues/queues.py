"""What the tests of queues do in other processes."""

from __future__ import annotations

from typing import Any

import numpy as np


def produce(line: Any, who: int, count: int) -> None:
    for number in range(count):
        line.put({"who": who, "number": number, "data": np.full(500, number)})
