"""Sends the cart from target to target, and ends: python monitor.py [--targets='[1, -1, 0.5]']"""

from __future__ import annotations

import asyncio

import tensorbus as tb
from states import State, Target

NEAR = 0.01


class Monitor(tb.Node):
    def __init__(self) -> None:
        super().__init__("monitor")
        self.targets = self.declare_parameter("targets", [1.0, -1.0, 0.5])
        self.aim = self.create_client("controller/target", Target, Target, timeout=30)
        self.states = self.create_subscriber("cart/state", State)

    async def follow(self) -> None:
        for target in self.targets:
            before = await self.aim.call_async(Target(float(target)))
            async for sample in self.states:
                state: State = sample.data
                if abs(state.position - target) < NEAR and abs(state.speed) < NEAR:
                    break
            print(f"from {before.position:g} to {target:g}", flush=True)
        self.stop()


async def main() -> None:
    async with Monitor() as monitor:
        await asyncio.gather(monitor.run(), monitor.follow())


if __name__ == "__main__":
    tb.run(main())
