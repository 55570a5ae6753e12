"""An inference server that puts batches together: images of 0.6 MB there, scores back.

Four clients ask one after the other; the server takes what waits, up to four, puts it into one
batch, and answers each. The model is the mean of each channel.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from harness.other_process import PATIENCE, die_with_parent, fork

CLIENTS = 4
IMAGE = (3, 224, 224)


def ask(kind: Any, number: int, requests: Any, answers: Any, count: int, link: Any) -> None:
    die_with_parent()
    torch.set_num_threads(1)
    client = torch.tensor(number)
    for step in range(count + 1):
        if step == 1:  # the first one is for all to have started
            link.send("ready")
            link.recv()
        image = kind.empty(IMAGE, torch.float32)
        image.fill_(number + step)
        requests.put({"client": client, "image": image})
        items = answers.get_many(1)
        if float(items[0]["scores"][0]) != number + step:
            raise RuntimeError("an answer is not what was asked for")
        answers.release(items)
    link.send("done")
    link.recv()  # PyTorch's tensors come from who sent them


def serve(requests: Any, answers: list[Any], count: int) -> None:
    batch = torch.empty((CLIENTS, *IMAGE))
    done = 0
    while done < count:
        items = requests.get_many(CLIENTS)
        size = len(items)
        clients = [int(item["client"]) for item in items]
        torch.stack([item["image"] for item in items], out=batch[:size])
        requests.release(items)
        scores = batch[:size].mean((2, 3))
        for client, score in zip(clients, scores, strict=True):
            answers[client].put({"scores": score.clone()})
        done += size


def each_request(kind: Any, count: int) -> float:
    """Nanoseconds; every client has so many."""
    requests, answers = kind.queue(), [kind.queue() for _ in range(CLIENTS)]
    clients, links = [], []
    for number in range(CLIENTS):
        ours, theirs = fork.Pipe()
        arguments = (kind, number, requests, answers[number], count, theirs)
        clients.append(fork.Process(target=ask, args=arguments, daemon=True))
        clients[-1].start()
        theirs.close()
        links.append(ours)
    try:
        serve(requests, answers, CLIENTS)
        for link in links:
            link.recv()
        begin = time.perf_counter_ns()
        for link in links:
            link.send("go")
        serve(requests, answers, CLIENTS * count)
        for link in links:
            link.recv()
        return (time.perf_counter_ns() - begin) / (CLIENTS * count)
    finally:
        for client in clients:
            client.kill()
            client.join(PATIENCE)
        for each in (requests, *answers):
            each.close()


def each_request_with_ray(ray: Any, count: int) -> float:
    """The same with an actor of Ray's, which has one request after the other."""
    import numpy as np

    class Server:
        def infer(self, image: Any) -> Any:
            return image.mean((1, 2))

    def client(server: Any, count: int) -> None:
        for step in range(count):
            answer = ray.get(server.infer.remote(ray.put(np.full(IMAGE, step, np.float32))))
            if answer[0] != step:
                raise RuntimeError("an answer is not what was asked for")

    server = ray.remote(num_cpus=0)(Server).remote()
    remote = ray.remote(num_cpus=0)(client)
    ray.get([remote.remote(server, 1) for _ in range(CLIENTS)], timeout=PATIENCE)
    begin = time.perf_counter_ns()
    ray.get([remote.remote(server, count) for _ in range(CLIENTS)], timeout=PATIENCE)
    return (time.perf_counter_ns() - begin) / (CLIENTS * count)
