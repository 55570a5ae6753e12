"""Publishes an array ten times a second: python array_publisher.py [count]"""

from __future__ import annotations

import sys

import numpy as np

from tensorbus.cortex import Node, run
from tensorbus.cortex.messages.standard import ArrayMessage


class ArrayPublisher(Node):
    def __init__(self, count: int | None) -> None:
        super().__init__("array_publisher")
        self.count = count
        self.pub = self.create_publisher("/sensor/array", ArrayMessage, queue_size=10)
        self.create_timer(0.1, self.tick)

    async def tick(self) -> None:
        number = self.pub.publish_count
        data = np.full((480, 640), number, dtype=np.float32)
        self.pub.publish(ArrayMessage(data=data, name=f"frame_{number}"))
        if self.pub.publish_count == self.count:
            print(f"published {self.count}", flush=True)
            self.stop()


async def main() -> None:
    async with ArrayPublisher(int(sys.argv[1]) if len(sys.argv) > 1 else None) as node:
        await node.run()


if __name__ == "__main__":
    run(main())
