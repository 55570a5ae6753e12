"""The model: gives a score to each of ten classes for each frame, where the frame is."""

import torch

import tensorbus as tb


def make_model() -> torch.nn.Module:
    torch.manual_seed(1)  # in place of weights that somebody trained
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 10, 5, stride=4),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(0),
    ).eval()


def scores_of(model: torch.nn.Module, frame: torch.Tensor) -> torch.Tensor:
    """Of a frame of shape (height, width, 3), uint8: ten numbers, on the frame's device."""
    return model.to(frame.device)(frame.permute(2, 0, 1)[None].float() / 255)


@torch.inference_mode()
def main() -> None:
    model = make_model()
    with (
        tb.Publisher("model/scores", reliable=True) as publisher,
        tb.Subscriber("camera/frame", library="torch", timeout=60) as frames,
    ):
        publisher.wait_for_subscribers(timeout=60)
        for frame in frames:
            scores = scores_of(model, frame.data)
            publisher.publish({"frame": frame.header.sequence, "scores": scores})


if __name__ == "__main__":
    main()
