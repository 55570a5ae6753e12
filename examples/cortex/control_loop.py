"""A motor and its controller, a thread each, at 100 Hz: python control_loop.py [count]"""

from __future__ import annotations

import sys

from tensorbus.cortex import Node
from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.cortex.messages.standard import FloatMessage

PERIOD = 0.01
TARGET = 10.0


class ControlLoop(Node):
    def __init__(self, count: int | None) -> None:
        super().__init__("control_loop")
        self.count = count
        self.speed = self.push = 0.0
        self.speeds = self.create_publisher("/motor/speed", FloatMessage, mode="sync")
        self.pushes = self.create_publisher("/motor/push", FloatMessage, mode="sync")
        self.create_subscriber(
            "/motor/speed", FloatMessage, callback=self.control, queue_size=1, mode="sync"
        )
        self.create_subscriber(
            "/motor/push", FloatMessage, callback=self.on_push, queue_size=1, mode="sync"
        )
        self.create_timer(PERIOD, self.step, mode="sync")

    def step(self) -> None:
        self.speed += self.push * PERIOD
        self.speeds.publish(FloatMessage(self.speed))
        if self.speeds.publish_count == self.count:
            self.stop()

    def control(self, message: FloatMessage, header: MessageHeader) -> None:
        self.pushes.publish(FloatMessage(20.0 * (TARGET - message.data)))

    def on_push(self, message: FloatMessage, header: MessageHeader) -> None:
        self.push = message.data


if __name__ == "__main__":
    with ControlLoop(int(sys.argv[1]) if len(sys.argv) > 1 else None) as node:
        node.spin()
        print(f"after {node.speeds.publish_count} steps: speed {node.speed:.1f}", flush=True)
