"""What the nodes say to each other."""

from __future__ import annotations

from dataclasses import dataclass

import tensorbus as tb


@dataclass
class State(tb.Message, name="cart.State"):
    position: float
    speed: float


@dataclass
class Force(tb.Message, name="cart.Force"):
    newton: float


@dataclass
class Target(tb.Message, name="cart.Target"):
    position: float
