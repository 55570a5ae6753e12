"""Takes the pictures of docs/tasks/view.md: the page, with a small robot that runs meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

import tensorbus as tb
from support.screens.chromium import Tab, chromium
from support.screens.view_pages import serving
from tensorbus._view.serving import others

PICTURES = Path(__file__).parents[2] / "docs/tasks/pictures"
WIDTH = 1280
TILES = ("camera/image", "lidar/points", "plan/cost", "odometry")
COLOURS = 128  # of a picture, so that the file is small


class Camera(tb.Node):
    def __init__(self) -> None:
        super().__init__("camera")
        self.images = self.create_publisher("camera/image")
        self.states = self.create_publisher("camera/state")
        self.create_timer(1 / 30, self.tick, mode="sync")
        self.turn = 0.0
        self.rows, self.columns = np.mgrid[0:480, 0:640]

    def tick(self) -> None:
        self.turn += 0.04
        image = np.full((480, 640, 3), (32, 44, 60), np.uint8)
        image[300:] = (70, 84, 76)
        for number, colour in enumerate([(221, 170, 92), (104, 158, 203), (190, 102, 96)]):
            middle = 320 + 210 * np.sin(self.turn + 2.1 * number)
            disc = (self.columns - middle) ** 2 + (self.rows - 250 - 40 * number) ** 2 < 60**2
            image[disc] = colour
        self.images.publish(tb.ImageMessage(image))
        self.states.publish({"celsius": 41.5, "exposure": 0.008})


class Lidar(tb.Node):
    def __init__(self) -> None:
        super().__init__("lidar")
        self.points = self.create_publisher("lidar/points")
        self.create_timer(1 / 10, self.tick, mode="sync")
        self.turn = 0.0

    def tick(self) -> None:
        self.turn += 0.05
        x, y = np.meshgrid(np.linspace(-6, 6, 110), np.linspace(-6, 6, 110))
        z = np.sin(np.hypot(x, y) * 1.4 - self.turn) * 0.8
        points = np.stack([x, y, z], axis=-1).reshape(-1, 3).astype(np.float32)
        self.points.publish(tb.PointCloudMessage(points, frame_id="map"))


class Planner(tb.Node):
    def __init__(self) -> None:
        super().__init__("planner")
        self.costs = self.create_publisher("plan/cost")
        self.speeds = self.create_publisher("plan/velocity")
        self.create_subscriber("detections", callback=self.on_message, mode="sync")
        self.create_subscriber("lidar/points", callback=self.on_points, mode="sync")
        self.turn = 0.0

    def on_message(self, message: object, header: tb.Header) -> None:
        self.speeds.publish({"forward": 1.2, "turn": 0.1})

    def on_points(self, message: object, header: tb.Header) -> None:
        self.turn += 0.1
        rows, columns = np.mgrid[0:120, 0:160]
        goal = np.hypot(columns - 80 - 40 * np.sin(self.turn), rows - 60)
        self.costs.publish(np.exp(-goal / 40).astype(np.float32))


class Detector(tb.Node):
    def __init__(self) -> None:
        super().__init__("detector")
        self.found = self.create_publisher("detections")
        self.create_subscriber("camera/image", callback=self.on_image, mode="sync")

    def on_image(self, message: tb.ImageMessage, header: tb.Header) -> None:
        self.found.publish({"boxes": np.zeros((3, 4), np.float32), "labels": ["disc"] * 3})


class Base(tb.Node):
    def __init__(self) -> None:
        super().__init__("base")
        self.states = self.create_publisher("odometry")
        self.create_subscriber("plan/velocity", callback=self.on_velocity, mode="sync")
        self.create_timer(1 / 50, self.tick, mode="sync")
        self.time = 0.0

    def on_velocity(self, message: object, header: tb.Header) -> None:
        pass

    def tick(self) -> None:
        self.time += 0.02
        speed = 1.2 + 0.3 * np.sin(self.time * 2)
        battery = 24.6 - 0.01 * self.time
        turn = np.sin(self.time) * np.exp(-(self.time % 6) / 3)
        self.states.publish({"speed": speed, "turn": turn, "battery": battery})


NODES = (Camera, Lidar, Detector, Planner, Base)


async def take() -> None:
    async with (
        serving(partial(others, None)) as server,
        chromium(Path(os.environ["TENSORBUS_DOMAIN"]).with_name("profile")) as browser,
    ):
        tab = await browser.open(server.url, WIDTH, 1000)
        await tab.do("Emulation.setScrollbarsHidden", hidden=True)
        rows = "[...document.querySelectorAll('#topics tbody tr')]"
        await tab.until(f"{rows}.length >= 7")
        for topic in TILES:
            await tab.js(f"{rows}.find((row) => row.cells[0].textContent === '{topic}').click()")
        await asyncio.sleep(12)  # until the plots are full
        height = await tab.js("document.querySelector('main').getBoundingClientRect().bottom")
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            await tab.do("Emulation.setEmulatedMedia", features=[feature])
            await asyncio.sleep(1)
            await keep(tab, PICTURES / f"view_{scheme}.png", int(height))


async def keep(tab: Tab, file: Path, height: int) -> None:
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    await tab.do("Emulation.setDeviceMetricsOverride", **size)
    await asyncio.sleep(1)
    await tab.picture(file, WIDTH, height)
    Image.open(file).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(
        file, optimize=True
    )


def main() -> None:
    if len(sys.argv) > 1:
        (node,) = [node for node in NODES if node.__name__ == sys.argv[1]]
        with node() as running:
            running.spin()
        return
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,  # we are in it
        contextlib.ExitStack() as stack,
    ):
        os.environ["TENSORBUS_DOMAIN"] = f"{folder}/robot"
        for node in NODES:
            process = stack.enter_context(
                subprocess.Popen([sys.executable, __file__, node.__name__])
            )
            stack.callback(process.terminate)
        asyncio.run(take())


if __name__ == "__main__":
    main()
