"""A convolutional network with fixed weights: photographs in, features out."""

import torch
from torch import nn

from plan import FEATURES_SHAPE, FRAME_SHAPE


class Network:
    """Runs on one thread, so that two runs on the same frame agree in every bit.

    >>> features = torch.empty(FEATURES_SHAPE)
    >>> Network().run(torch.zeros(FRAME_SHAPE, dtype=torch.uint8), features)
    """

    def __init__(self) -> None:
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self._layers = nn.Sequential(
                nn.Conv2d(3, 8, 5, stride=4, padding=2),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3, stride=2, padding=1),
                nn.ReLU(),
                nn.Conv2d(16, 32, 3, stride=2, padding=1),
                nn.ReLU(),
                nn.Conv2d(32, 64, 3, stride=2, padding=1),
                nn.ReLU(),
                nn.Conv2d(64, 64, 3, stride=2, padding=1),
            )

    @torch.inference_mode()
    def run(self, frame: torch.Tensor, out: torch.Tensor) -> None:
        """Computes the features of a frame straight into `out`, which may be a loan.

        Args:
            frame: (1080, 1920, 3) uint8.
            out: FEATURES_SHAPE, float32, contiguous.
        """
        pixels = frame.permute(2, 0, 1).unsqueeze(0).float().div_(255)
        torch.clamp(self._layers(pixels), min=0, out=out)

    def warm_up(self) -> None:
        """The first runs take longer: memory and kernels are chosen in them."""
        frame = torch.zeros(FRAME_SHAPE, dtype=torch.uint8)
        for _ in range(3):
            self.run(frame, torch.empty(FEATURES_SHAPE))
