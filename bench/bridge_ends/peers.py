"""One end of another engine, for python_bridge: messages of one size into memory that is there.

    peers.py receive|send ADDRESS SIZE COUNT pyzmq|grpc|zenoh [--certificate, --key, --authority]

Zenoh has TLS on both ends with these files. The receiver says "ready" when it listens. Both say in
JSON what their part took.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asyncio_tcp import PORT, buffer, processor_time, say

PATIENCE = 60.0
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def receive_pyzmq(address: str, memory: memoryview, count: int, _: Any) -> None:
    import zmq

    with zmq.Context() as context, context.socket(zmq.PULL) as messages:
        messages.bind(f"tcp://{address}:{PORT}")
        with context.socket(zmq.PUSH) as over:
            over.bind(f"tcp://{address}:{PORT + 1}")
            print("ready", flush=True)
            begin, used = time.perf_counter(), processor_time()
            for _ in range(count):
                assert messages.recv_into(memory) == len(memory)
            say(begin, used)
            over.send(b"all")


def send_pyzmq(address: str, memory: memoryview, count: int, _: Any) -> None:
    import zmq

    with (
        zmq.Context() as context,
        context.socket(zmq.PUSH) as messages,
        context.socket(zmq.PULL) as over,
    ):
        messages.sndhwm = 2
        messages.connect(f"tcp://{address}:{PORT}")
        over.connect(f"tcp://{address}:{PORT + 1}")
        begin, used = time.perf_counter(), processor_time()
        for _ in range(count):
            messages.send(memory, copy=False)
        over.recv()
        say(begin, used)


def receive_grpc(address: str, memory: memoryview, count: int, _: Any) -> None:
    import grpc

    over = threading.Event()

    def take(messages: Any, __: Any) -> bytes:
        begin, used = time.perf_counter(), processor_time()
        for message in messages:
            memory[:] = message
        say(begin, used)
        over.set()
        return b"all"

    handler = grpc.stream_unary_rpc_method_handler(take)  # bytes: no serializer
    server = grpc.server(ThreadPoolExecutor(1), options=UNLIMITED)
    generic = grpc.method_handlers_generic_handler("bench", {"take": handler})
    server.add_generic_rpc_handlers((generic,))
    server.add_insecure_port(f"{address}:{PORT}")
    server.start()
    print("ready", flush=True)
    over.wait(PATIENCE)
    server.stop(1).wait()


def send_grpc(address: str, memory: memoryview, count: int, _: Any) -> None:
    import grpc

    with grpc.insecure_channel(f"{address}:{PORT}", options=UNLIMITED) as channel:
        take = channel.stream_unary("/bench/take")
        message = bytes(memory)
        begin, used = time.perf_counter(), processor_time()
        take(message for _ in range(count))
        say(begin, used)


def zenoh_session(way: str, address: str, files: Any) -> Any:
    import zenoh

    config = zenoh.Config()
    tls = {
        "root_ca_certificate": files.authority,
        "enable_mtls": True,
        f"{way}_certificate": files.certificate,
        f"{way}_private_key": files.key,
    }
    settings: dict[str, Any] = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "transport/link/tls": tls,
        f"{way}/endpoints": [f"tls/{address}:{PORT}"],
    }
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def receive_zenoh(address: str, memory: memoryview, count: int, files: Any) -> None:
    with zenoh_session("listen", address, files) as session:
        come: queue.Queue[Any] = queue.Queue()
        over = session.declare_publisher("over")
        session.declare_subscriber("bench", come.put)
        print("ready", flush=True)
        first = come.get(timeout=PATIENCE)
        begin, used = time.perf_counter(), processor_time()
        memory[:] = first.payload.to_bytes()
        for _ in range(1, count):
            memory[:] = come.get(timeout=PATIENCE).payload.to_bytes()
        say(begin, used)
        over.put(b"all")
        time.sleep(0.5)  # nothing tells that it has left


def send_zenoh(address: str, memory: memoryview, count: int, files: Any) -> None:
    import zenoh

    with zenoh_session("connect", address, files) as session:
        over = session.declare_subscriber("over")
        messages = session.declare_publisher(
            "bench", congestion_control=zenoh.CongestionControl.BLOCK
        )
        while not messages.matching_status.matching:
            time.sleep(0.01)
        message = bytes(memory)
        begin, used = time.perf_counter(), processor_time()
        for _ in range(count):
            messages.put(message)
        over.recv()
        say(begin, used)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("end", choices=("receive", "send"))
    parser.add_argument("address")
    parser.add_argument("size", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("engine", choices=("pyzmq", "grpc", "zenoh"))
    for name in ("certificate", "key", "authority"):
        parser.add_argument(f"--{name}")
    told = parser.parse_args()
    end = getattr(sys.modules[__name__], f"{told.end}_{told.engine}")
    end(told.address, buffer(told.size), told.count, told)


if __name__ == "__main__":
    main()
