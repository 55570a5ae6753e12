"""A tensor of 24.9 MB on a GPU there and back, through what Python programs use for it.

Both ends sleep while they wait. There and back: from just before a new tensor is sent to the moment
at which the client has the answer, a tensor. Tensorbus's servers send on what they received.
PyTorch refuses that, so the others answer with a tensor of their own, made before.

`_share_cuda_`: what PyTorch's queue does, by hand: its private calls, and a pipe for what they
return. Pickle: through main memory, and a pipe. Where PyTorch has no GPU all tensors lie in main
memory: a rehearsal, and `_share_cuda_` is left out.
"""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing as torch_multiprocessing

import tensorbus as tb
from harness.cores import core_pair, pin_to
from harness.report import is_quick, percentile, report, report_absent

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
IMAGE = (1920, 1080, 3)
spawn = multiprocessing.get_context("spawn")

Send = Callable[[Any], object]
Take = Callable[[], Any]


def new_tensor() -> Any:
    return torch.empty(IMAGE, dtype=torch.float32, device=DEVICE)


def shared_by_hand(tensor: Any) -> Any:
    return tensor.untyped_storage()._share_cuda_()


def rebuilt_by_hand(parts: Any) -> Any:
    storage = torch.UntypedStorage._new_shared_cuda(*parts)
    return torch.empty(0, dtype=torch.float32, device=DEVICE).set_(storage, 0, IMAGE)


class Ends:
    """How one process sends and takes by each of the ways."""

    def __init__(self, out: str, into: str, links: dict[str, Any], domain: str) -> None:
        """`out`, `into`: "there" and "back" for the client; the other way round for the server."""
        pipe = links[f"{out} pipe"], links[f"{into} pipe"]
        self.publisher = tb.Publisher(out, reliable=True, domain=domain)
        self.subscriber = tb.Subscriber(into, domain=domain)
        self.ways: dict[str, tuple[Send, Take]] = {
            "tensorbus topic": (self.publisher.publish, lambda: self.subscriber.receive(60).data),
            "tensorbus Queue": (links[f"{out} bus"].put, links[f"{into} bus"].get),
            "torch Queue": (links[f"{out} torch"].put, links[f"{into} torch"].get),
            "_share_cuda_": (
                lambda tensor: pipe[0].send(shared_by_hand(tensor)),
                lambda: rebuilt_by_hand(pipe[1].recv()),
            ),
            "pickle": (
                lambda tensor: pipe[0].send_bytes(pickle.dumps(tensor.cpu(), 5)),
                lambda: pickle.loads(pipe[1].recv_bytes()).to(DEVICE),
            ),
        }

    def close(self) -> None:
        self.publisher.close()
        self.subscriber.close()


def serve(control: Any, links: dict[str, Any], domain: str) -> None:
    pin_to(core_pair().receiver)
    ends = Ends("back", "there", links, domain)
    new_tensor()  # sets CUDA up
    control.send("ready")
    while (told := control.recv()) is not None:
        way, count = told
        send, take = ends.ways[way]
        for _ in range(count):
            own = None if way.startswith("tensorbus") else new_tensor()
            tensor = take()
            send(tensor if own is None else own)
            del tensor, own
    ends.close()


def ask(way: tuple[Send, Take], count: int) -> list[int]:
    send, take = way
    times = []
    for _ in range(count):
        tensor = new_tensor()
        begin = time.perf_counter_ns()
        send(tensor)
        back = take()
        times.append(time.perf_counter_ns() - begin)
        del tensor, back
    return times


def main() -> None:
    quick = is_quick(__doc__)
    domain = tb.participant().domain
    links: dict[str, Any] = {}
    for direction in ("there", "back"):
        links[f"{direction} bus"] = tb.Queue()
        links[f"{direction} torch"] = torch_multiprocessing.get_context("spawn").Queue()
    pipes = {direction: spawn.Pipe(duplex=False) for direction in ("there", "back")}
    control, servers_control = spawn.Pipe()
    theirs = {"there pipe": pipes["there"][0], "back pipe": pipes["back"][1], **links}
    mine = {"there pipe": pipes["there"][1], "back pipe": pipes["back"][0], **links}
    server = spawn.Process(target=serve, args=(servers_control, theirs, domain), daemon=True)
    server.start()
    ends = Ends("there", "back", mine, domain)
    assert control.recv() == "ready"
    if not ends.publisher.wait_for_subscribers(timeout=60):
        raise SystemExit("no subscriber came")
    if not ends.subscriber.wait_for_publishers(timeout=60):
        raise SystemExit("no publisher came")
    pin_to(core_pair().sender)
    for repetition in range(2 if quick else 5):
        for name, way in ends.ways.items():
            if name == "_share_cuda_" and DEVICE == "cpu":
                if repetition == 0:
                    report_absent(name, "PyTorch has no GPU")
                continue
            count = (3 if quick else 20) if name == "pickle" else (20 if quick else 500)
            control.send((name, count + 2))
            times = ask(way, count + 2)[2:]
            report(name, repetition, p50_ns=percentile(times, 0.5), p99_ns=percentile(times, 0.99))
    control.send(None)
    server.join()
    ends.close()


if __name__ == "__main__":
    main()
