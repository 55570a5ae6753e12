"""Makes the picture of docs/tasks/top.md: `tensorbus top` beside cameras, one of them held up.

python docs/site/top_picture.py docs/tasks/top.svg
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import tempfile
from pathlib import Path

import tensorbus as tb
from tensorbus._inspection.inspection import inspect
from tensorbus._top.app import Top

SIZE = 150, 16
PATIENCE = 60.0  # seconds


class Camera(tb.Node):
    """Publishes 30 frames a second, and waits for everybody who looks at them."""

    def __init__(self, side: str) -> None:
        super().__init__(f"camera_{side}")
        self._images = self.create_publisher(f"camera/{side}", tb.ImageMessage, reliable=True)
        self.create_timer(1 / 30, self._tick)

    def _tick(self) -> None:
        self._images.publish(tb.ImageMessage(self._images.loan((1080, 1920, 3), "uint8")))


class Looker(tb.Node):
    """Looks at the frames of a camera and publishes what it found."""

    def __init__(self, name: str, side: str) -> None:
        super().__init__(name)
        self._objects = self.create_publisher(f"{name}/objects", tb.DictMessage)
        self.create_subscriber(f"camera/{side}", tb.ImageMessage, self._on_image)

    def _on_image(self, image: tb.ImageMessage, header: tb.MessageHeader) -> None:
        self._objects.publish(tb.DictMessage({"objects": 3}))


NODES = {
    "detector": lambda: Looker("detector", "left"),
    "viewer": lambda: Looker("viewer", "right"),
    "camera_left": lambda: Camera("left"),
    "camera_right": lambda: Camera("right"),
}


def run(name: str) -> None:
    tb.run(NODES[name]().run())


async def take(picture: Path, viewer: int) -> None:
    await asyncio.wait_for(_take(picture, viewer), PATIENCE)


async def _take(picture: Path, viewer: int) -> None:
    """Stops the viewer when all topics have a rate, and waits until a camera has none."""
    app = Top(inspect)
    async with app.run_test(size=SIZE) as pilot:
        while len(app.snapshot.rates) < len(NODES):
            await pilot.pause(0.1)
        os.kill(viewer, signal.SIGSTOP)
        while not any(trouble.for_ns > 2e9 for trouble in app.snapshot.troubles):
            await pilot.pause(0.1)
        picture.write_text(app.export_screenshot(simplify=True))


def main(picture: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TENSORBUS_DOMAIN"] = f"{folder}/robot"
        processes = [spawn.Process(target=run, args=(name,), name=name) for name in NODES]
        for process in processes:
            process.start()
        try:
            viewer = processes[list(NODES).index("viewer")].pid
            assert viewer
            asyncio.run(take(picture, viewer))
        finally:
            for process in processes:
                process.kill()
                process.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
