"""The processes that are killed. Each speaks in lines on its standard output."""

from __future__ import annotations

import sys

import tensorbus as tb

TOPIC = "storm"
PATIENCE = 60.0


def record(path: str, compress: str = "") -> None:
    """Says, again and again, how many messages are in the file."""
    with tb.Recorder(
        path, TOPIC, reliable=True, buffer=1 << 22, overwrite=True, compress=compress or None
    ) as recorder:
        told = -1
        while not recorder.wait(0.0002):
            messages = recorder.stats.messages
            if messages != told:
                print(messages, flush=True)
                told = messages


def play(path: str) -> None:
    """Plays it round and round, as fast as it goes."""
    with tb.Player(path, rate=1e6, loop=True, paused=True) as player:
        player.wait_for_subscribers(PATIENCE)
        player.resume()
        print("plays", flush=True)
        player.wait()


if __name__ == "__main__":
    {"record": record, "play": play}[sys.argv[1]](*sys.argv[2:])
