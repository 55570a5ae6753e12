"""The same network on the same frames in one process: the features that a pipeline must deliver."""

import time
from collections.abc import Callable

import numpy as np
import torch

from network import Network
from photographs import Photographs
from plan import FEATURES_SHAPE, FRAME_SHAPE


def reference(frames: int, progress: Callable[[int], None]) -> tuple[np.ndarray, float]:
    """(frames, 64, 17, 30) float32, and how many frames per second the network alone does."""
    photographs = Photographs()
    network = Network()
    network.warm_up()
    features = torch.empty(frames, *FEATURES_SHAPE)
    seconds = 0.0
    for index in range(frames):
        frame = torch.empty(FRAME_SHAPE, dtype=torch.uint8)
        if frame.data_ptr() % 64 or features[index].data_ptr() % 64:
            raise AssertionError("less aligned than what travels, so that results may differ")
        photographs.write(index, frame.numpy())
        start = time.perf_counter()
        network.run(frame, out=features[index])
        seconds += time.perf_counter() - start
        progress(index + 1)
    return features.squeeze(1).numpy(), frames / seconds


def count_equal(expected: np.ndarray, delivered: np.ndarray) -> int:
    """How many frames have the same features in every bit."""
    pairs = zip(expected, delivered, strict=True)
    return sum(one.tobytes() == other.tobytes() for one, other in pairs)
