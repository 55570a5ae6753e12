"""Prints what tensor_publisher.py publishes: python tensor_subscriber.py [count]"""

from __future__ import annotations

import sys

from tensorbus.cortex import Node, run
from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.cortex.messages.standard import TensorMessage


class TensorSubscriber(Node):
    def __init__(self, count: int | None) -> None:
        super().__init__("tensor_subscriber")
        self.count = count
        self.sub = self.create_subscriber("/model/features", TensorMessage, callback=self.on_tensor)

    async def on_tensor(self, message: TensorMessage, header: MessageHeader) -> None:
        data = message.data
        mean = data.mean().item()
        print(f"{message.name}: {tuple(data.shape)} {data.dtype}, mean {mean:g}", flush=True)
        if self.sub.receive_count == self.count:
            self.stop()


async def main() -> None:
    async with TensorSubscriber(int(sys.argv[1]) if len(sys.argv) > 1 else None) as node:
        await node.run()


if __name__ == "__main__":
    run(main())
