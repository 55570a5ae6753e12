"""Prints what dict_publisher.py publishes: python dict_subscriber.py [count]"""

from __future__ import annotations

import sys

from tensorbus.cortex import Node, run
from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.cortex.messages.standard import DictMessage


class DictSubscriber(Node):
    def __init__(self, count: int | None) -> None:
        super().__init__("dict_subscriber")
        self.count = count
        self.sub = self.create_subscriber("/robot/state", DictMessage, callback=self.on_state)

    async def on_state(self, message: DictMessage, header: MessageHeader) -> None:
        state = message.data
        joints = dict(zip(state["joints"]["names"], state["joints"]["angles"], strict=True))
        angle, shape = joints["joint_6"], state["scan"].shape
        print(
            f"step {state['step']}, {state['mode']}: joint_6 {angle:.1f}, scan {shape}", flush=True
        )
        if self.sub.receive_count == self.count:
            self.stop()


async def main() -> None:
    async with DictSubscriber(int(sys.argv[1]) if len(sys.argv) > 1 else None) as node:
        await node.run()


if __name__ == "__main__":
    run(main())
