"""Prints what array_publisher.py publishes: python array_subscriber.py [count]"""

from __future__ import annotations

import sys

from tensorbus.cortex import Node, run
from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.cortex.messages.standard import ArrayMessage


class ArraySubscriber(Node):
    def __init__(self, count: int | None) -> None:
        super().__init__("array_subscriber")
        self.count = count
        self.sub = self.create_subscriber("/sensor/array", ArrayMessage, callback=self.on_array)

    async def on_array(self, message: ArrayMessage, header: MessageHeader) -> None:
        mean = float(message.data.mean())
        print(
            f"{message.name}: {message.data.shape} {message.data.dtype}, mean {mean:g}", flush=True
        )
        if self.sub.receive_count == self.count:
            self.stop()


async def main() -> None:
    async with ArraySubscriber(int(sys.argv[1]) if len(sys.argv) > 1 else None) as node:
        await node.run()


if __name__ == "__main__":
    run(main())
