"""Publishes a tensor ten times a second: python tensor_publisher.py [count]"""

from __future__ import annotations

import sys

import torch

from tensorbus.cortex import Node, run
from tensorbus.cortex.messages.standard import TensorMessage


class TensorPublisher(Node):
    def __init__(self, count: int | None) -> None:
        super().__init__("tensor_publisher")
        self.count = count
        self.pub = self.create_publisher("/model/features", TensorMessage, queue_size=10)
        self.create_timer(0.1, self.tick)

    async def tick(self) -> None:
        number = self.pub.publish_count
        data = torch.full((8, 256), float(number), dtype=torch.float16)
        self.pub.publish(TensorMessage(data=data, name=f"features_{number}"))
        if self.pub.publish_count == self.count:
            print(f"published {self.count}", flush=True)
            self.stop()


async def main() -> None:
    async with TensorPublisher(int(sys.argv[1]) if len(sys.argv) > 1 else None) as node:
        await node.run()


if __name__ == "__main__":
    run(main())
