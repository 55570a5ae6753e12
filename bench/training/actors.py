"""Actors and a learner: trajectories of 3.6 MB one way, weights of 4 MB the other.

An actor writes 128 states of (4, 84, 84) uint8, as of a game, and puts them into a queue. The
learner reads a byte of each page, and has new weights after every fourth trajectory. Nothing plays
and nothing learns, so that the time is that of the passing on.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from harness.other_process import PATIENCE, die_with_parent, fork

ACTORS = 8
STATES = (128, 4, 84, 84)
WEIGHTS = 1_000_000  # float32
EACH = 4  # trajectories from weights to weights
PAGE = 4096


def act(kind: Any, trajectories: Any, board: Any) -> None:
    die_with_parent()
    torch.set_num_threads(1)
    weights = torch.zeros(WEIGHTS)
    number = 0
    while True:
        board.read_into(weights)
        states = kind.empty(STATES, torch.uint8)
        states.fill_(number % 251)
        actions = torch.full((STATES[0],), number)
        trajectories.put({"states": states, "actions": actions})
        number += 1


def learned(trajectories: Any) -> int:
    """How many trajectories it has read."""
    items = trajectories.get_many(1)
    for item in items:
        states = item["states"].view(-1)
        if int(states[::PAGE].max()) != int(item["actions"][0]) % 251:
            raise RuntimeError("a trajectory is not what was put")
        del states, item
    count = len(items)
    trajectories.release(items)
    return count


def learn(trajectories: Any, board: Any, count: int) -> None:
    weights = torch.zeros(WEIGHTS)
    done = 0
    while done < count:
        done += learned(trajectories)
        if done % EACH == 0:
            weights += 1
            board.write(weights)


def each_trajectory(kind: Any, count: int) -> float:
    """Nanoseconds."""
    trajectories, board = kind.queue(), kind.board(torch.zeros(WEIGHTS))
    actors = [
        fork.Process(target=act, args=(kind, trajectories, board), daemon=True)
        for _ in range(ACTORS)
    ]
    for actor in actors:
        actor.start()
    try:
        learn(trajectories, board, 2 * ACTORS)  # all have started
        begin = time.perf_counter_ns()
        learn(trajectories, board, count)
        return (time.perf_counter_ns() - begin) / count
    finally:
        for actor in actors:
            actor.kill()
            actor.join(PATIENCE)
        trajectories.close()
        board.close()


def each_trajectory_with_ray(ray: Any, count: int) -> float:
    """The same with Ray's actors, whose results lie in its object store."""
    import numpy as np

    def rollout(weights: Any, number: int) -> Any:
        np.empty_like(weights)[:] = weights
        return {
            "states": np.full(STATES, number % 251, np.uint8),
            "actions": np.full(STATES[0], number),
        }

    remote = ray.remote(num_cpus=2 / ACTORS)(rollout)
    weights = ray.put(np.zeros(WEIGHTS, np.float32))
    pending = [remote.remote(weights, number) for number in range(2 * ACTORS)]
    begin = 0
    for done in range(2 * ACTORS + count):
        if done == 2 * ACTORS:
            begin = time.perf_counter_ns()
        (ready,), pending = ray.wait(pending, num_returns=1, timeout=PATIENCE)
        item = ray.get(ready)
        if item["states"].reshape(-1)[::PAGE].max() != item["actions"][0] % 251:
            raise RuntimeError("a trajectory is not what was put")
        if done % EACH == 0:
            weights = ray.put(np.full(WEIGHTS, done, np.float32))
        pending.append(remote.remote(weights, done))
    took = time.perf_counter_ns() - begin
    ray.wait(pending, num_returns=len(pending), timeout=PATIENCE)
    return took / count
