"""The model: runs the network on each frame where it lies, and publishes the features."""

import sys
import time
from pathlib import Path

import numpy as np
import torch

import tensorbus as tb
from network import Network
from plan import DEPTH, FEATURES_SHAPE, FEATURES_TOPIC, FRAMES_TOPIC, TIMEOUT
from processes import leave
from records import Arrivals, write_stats


def main(results: Path, frames: int) -> None:
    network = Network()
    network.warm_up()
    arrivals = Arrivals(results / "model.txt")
    pictures = {}  # some frames, made small, to show what came
    with tb.Publisher(FEATURES_TOPIC, depth=DEPTH, reliable=True, timeout=TIMEOUT) as publisher:
        if not publisher.wait_for_subscribers(timeout=TIMEOUT):
            leave("no sink came")
        subscriber = tb.Subscriber(FRAMES_TOPIC, timeout=TIMEOUT, library="torch")
        for _ in range(frames):
            sample = subscriber.receive()
            message = sample.data
            index, frame = message["index"], message["frame"]
            arrivals.add(index, message["sent_ns"], time.time_ns())

            features = publisher.loan(FEATURES_SHAPE, dtype=torch.float32)
            network.run(frame, out=features)
            reply = {"features": features, "index": index, "sent_ns": time.time_ns()}
            if publisher.publish(reply, parents=[sample]) == 0:
                leave("the sink has gone")
            if index % max(1, frames // 4) == 0:
                pictures[str(index)] = frame[::3, ::3].numpy().copy()
        write_stats(results / "model.json", publisher.stats)
    np.savez(results / "pictures.npz", **pictures)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
