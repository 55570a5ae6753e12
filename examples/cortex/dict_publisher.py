"""Publishes the state of a robot ten times a second: python dict_publisher.py [count]"""

from __future__ import annotations

import sys

import numpy as np

from tensorbus.cortex import Node, run
from tensorbus.cortex.messages.standard import DictMessage


class DictPublisher(Node):
    def __init__(self, count: int | None) -> None:
        super().__init__("dict_publisher")
        self.count = count
        self.pub = self.create_publisher("/robot/state", DictMessage, queue_size=10)
        self.create_timer(0.1, self.tick)

    async def tick(self) -> None:
        number = self.pub.publish_count
        joints = {"angles": np.full(7, 0.1 * number), "names": [f"joint_{i}" for i in range(7)]}
        state = {"step": number, "mode": "idle", "joints": joints, "scan": np.ones((3, 360))}
        self.pub.publish(DictMessage(data=state))
        if self.pub.publish_count == self.count:
            print(f"published {self.count}", flush=True)
            self.stop()


async def main() -> None:
    async with DictPublisher(int(sys.argv[1]) if len(sys.argv) > 1 else None) as node:
        await node.run()


if __name__ == "__main__":
    run(main())
