"""A camera, a detector and a logger in one process: python multi_node.py [count]"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

from tensorbus.cortex import Node, run
from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.cortex.messages.standard import ArrayMessage, DictMessage


class Camera(Node):
    def __init__(self) -> None:
        super().__init__("camera")
        self.pub = self.create_publisher("/camera/image", ArrayMessage)
        self.create_timer(1 / 30, self.tick)

    async def tick(self) -> None:
        number = self.pub.publish_count
        image = np.zeros((120, 160), dtype=np.uint8)
        image[number % 120, number % 160] = 255
        self.pub.publish(ArrayMessage(data=image, name=str(number)))


class Detector(Node):
    def __init__(self) -> None:
        super().__init__("detector")
        self.pub = self.create_publisher("/detections", DictMessage)
        self.create_subscriber("/camera/image", ArrayMessage, callback=self.on_image)

    async def on_image(self, message: ArrayMessage, header: MessageHeader) -> None:
        self.pub.publish(DictMessage({"image": message.name, "at": np.argwhere(message.data)}))


class Logger(Node):
    def __init__(self) -> None:
        super().__init__("logger")
        self.sub = self.create_subscriber("/detections", DictMessage, callback=self.on_detections)
        self.done = asyncio.Event()

    async def on_detections(self, message: DictMessage, header: MessageHeader) -> None:
        print(f"image {message.data['image']}: bright at {message.data['at'].tolist()}", flush=True)
        if sys.argv[1:] == [str(self.sub.receive_count)]:
            self.done.set()


async def main() -> None:
    async with Camera() as camera, Detector() as detector, Logger() as logger:
        nodes = [camera, detector, logger]
        running = asyncio.gather(*(node.run() for node in nodes))
        await logger.done.wait()
        for node in nodes:
            node.stop()
        await running


if __name__ == "__main__":
    run(main())
