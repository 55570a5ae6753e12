"""A cart on a rail: python plant.py [--rate=200] [--mass=1.0]"""

from __future__ import annotations

import tensorbus as tb
from states import Force, State


class Plant(tb.Node):
    def __init__(self) -> None:
        super().__init__("plant")
        self.step = 1 / self.declare_parameter("rate", 200.0, help="steps a second")
        self.mass = self.declare_parameter("mass", 1.0, help="of the cart, in kg")
        self.state = State(0.0, 0.0)
        self.force = 0.0
        self.states = self.create_publisher("cart/state", State)
        self.create_subscriber("cart/force", Force, self.on_force, queue_size=1, mode="sync")
        self.timer = self.create_timer(self.step, self.tick, mode="sync")

    def on_force(self, force: Force, header: tb.Header) -> None:
        self.force = force.newton

    def tick(self) -> None:
        speed = self.state.speed + self.force / self.mass * self.step
        self.state = State(self.state.position + speed * self.step, speed)
        self.states.publish(self.state)


if __name__ == "__main__":
    with Plant() as plant:
        plant.spin()
