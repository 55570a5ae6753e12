"""Pushes the cart to a target: python controller.py [--stiffness=100.0] [--damping=20.0]"""

from __future__ import annotations

import tensorbus as tb
from states import Force, State, Target


class Controller(tb.Node):
    def __init__(self) -> None:
        super().__init__("controller")
        self.stiffness = self.declare_parameter("stiffness", 100.0)
        self.damping = self.declare_parameter("damping", 20.0)
        self.target = 0.0
        self.forces = self.create_publisher("cart/force", Force)
        self.create_subscriber("cart/state", State, self.on_state, queue_size=1, mode="sync")
        self.create_service("controller/target", Target, Target, self.aim, mode="sync")

    def on_state(self, state: State, header: tb.Header) -> None:
        pull = self.stiffness * (self.target - state.position)
        self.forces.publish(Force(pull - self.damping * state.speed))

    def aim(self, target: Target) -> Target:
        """The new target; the one before is the reply."""
        self.target, before = target.position, self.target
        return Target(before)


if __name__ == "__main__":
    with Controller() as controller:
        controller.spin()
