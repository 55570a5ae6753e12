"""Small messages there and back between two machines: one that asks, or one that answers.

    echo.py ask|answer tensorbus|beside|zenoh|pyzmq|grpc|tcp ADDRESS SIZE COUNT
    echo.py feed|drain

ADDRESS is that of the machine that answers. The answering side says "ready". The asking side says
in JSON the nanoseconds of each round trip. `beside` is tensorbus while frames of 24.9 MB cross the
same bridges as fast as they are taken: `feed` publishes them, `drain` subscribes to them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PATIENCE = 60.0
PORT = 7447

Exchange = Callable[[bytes], bytes]


def times_of(exchange: Exchange, size: int, count: int) -> list[float]:
    """Nanoseconds of each exchange, but for the first ones."""
    message = bytes(size)
    warm_up = max(20, count // 20)
    times = []
    for number in range(warm_up + count):
        begin = time.perf_counter()
        assert len(exchange(message)) == size
        if number >= warm_up:
            times.append((time.perf_counter() - begin) * 1e9)
        time.sleep(0.0005)  # a program that asks now and then, not a stream
    return times


@contextlib.contextmanager
def bridge(*options: str) -> Iterator[None]:
    """The bridge of this machine."""
    running = subprocess.Popen(
        [sys.executable, "-m", "tensorbus", "bridge", "--trust-network", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        running.terminate()
        running.wait()


@contextlib.contextmanager
def asks_tensorbus(address: str) -> Iterator[Exchange]:
    import tensorbus as tb

    with (
        bridge("--connect", f"{address}:{PORT}"),
        tb.Publisher[bytes]("there", reliable=True) as there,
        tb.Subscriber[bytes]("back", timeout=PATIENCE) as back,
    ):
        assert there.wait_for_subscribers(timeout=PATIENCE)
        assert back.wait_for_publishers(timeout=PATIENCE)

        def exchange(message: bytes) -> bytes:
            there.publish(message)
            return back.receive().data

        yield exchange


def answer_tensorbus(address: str) -> None:
    import tensorbus as tb

    with (
        bridge("--listen", f"{address}:{PORT}"),
        tb.Publisher[bytes]("back", reliable=True) as back,
        tb.Subscriber[bytes]("there", end_of_stream=True) as there,
    ):
        print("ready", flush=True)
        assert back.wait_for_subscribers(timeout=PATIENCE)
        for sample in there:
            back.publish(sample.data)


@contextlib.contextmanager
def beside(role: str) -> Iterator[None]:
    """The bulk, in a process of its own."""
    running = subprocess.Popen([sys.executable, __file__, role])
    try:
        yield
    finally:
        running.kill()
        running.wait()


@contextlib.contextmanager
def asks_beside(address: str) -> Iterator[Exchange]:
    with asks_tensorbus(address) as exchange, beside("feed"):
        time.sleep(2)  # until frames flow
        yield exchange


def answer_beside(address: str) -> None:
    with beside("drain"):
        answer_tensorbus(address)


def feed() -> None:
    import tensorbus as tb

    with tb.Publisher[Any]("frames", depth=2, reliable=True) as publisher:
        publisher.wait_for_subscribers(timeout=PATIENCE)
        while True:
            publisher.publish(publisher.loan((24_883_200,), dtype="uint8"))


def drain() -> None:
    import tensorbus as tb

    with tb.Subscriber[Any]("frames") as subscriber:
        for _ in subscriber:
            pass


def _zenoh(mode: str, address: str) -> Any:
    import zenoh

    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5(f"{mode}/endpoints", f'["tcp/{address}:{PORT}"]')
    return zenoh.open(config)


@contextlib.contextmanager
def asks_zenoh(address: str) -> Iterator[Exchange]:

    with _zenoh("connect", address) as session:
        back = session.declare_subscriber("back")
        there = session.declare_publisher("there", express=True)
        while not there.matching_status.matching:
            time.sleep(0.01)
        time.sleep(0.5)  # nothing tells that the other side has matched

        def exchange(message: bytes) -> bytes:
            there.put(message)
            found: bytes = back.recv().payload.to_bytes()
            return found

        yield exchange


def answer_zenoh(address: str) -> None:
    with _zenoh("listen", address) as session:
        over = threading.Event()
        back = session.declare_publisher("back", express=True)

        def answer(sample: Any) -> None:
            back.put(sample.payload.to_bytes())

        session.declare_subscriber("there", answer)
        print("ready", flush=True)
        over.wait()  # until this process is ended


@contextlib.contextmanager
def asks_pyzmq(address: str) -> Iterator[Exchange]:
    import zmq

    with zmq.Context() as context, context.socket(zmq.REQ) as messages:
        messages.connect(f"tcp://{address}:{PORT}")

        def exchange(message: bytes) -> bytes:
            messages.send(message)
            return messages.recv()

        yield exchange


def answer_pyzmq(address: str) -> None:
    import zmq

    with zmq.Context() as context, context.socket(zmq.REP) as messages:
        messages.bind(f"tcp://{address}:{PORT}")
        print("ready", flush=True)
        while True:  # until this process is ended
            messages.send(messages.recv())


@contextlib.contextmanager
def asks_grpc(address: str) -> Iterator[Exchange]:
    import grpc

    with grpc.insecure_channel(f"{address}:{PORT}") as channel:
        call = channel.unary_unary("/bench/echo")  # bytes: no serializer
        yield lambda message: call(message)


def answer_grpc(address: str) -> None:
    import grpc

    handler = grpc.unary_unary_rpc_method_handler(lambda message, _: message)
    server = grpc.server(ThreadPoolExecutor(1))
    generic = grpc.method_handlers_generic_handler("bench", {"echo": handler})
    server.add_generic_rpc_handlers((generic,))
    server.add_insecure_port(f"{address}:{PORT}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()  # until this process is ended


@contextlib.contextmanager
def asks_tcp(address: str) -> Iterator[Exchange]:
    with socket.create_connection((address, PORT)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def exchange(message: bytes) -> bytes:
            connection.sendall(message)
            return connection.recv(len(message), socket.MSG_WAITALL)

        yield exchange


def answer_tcp(address: str) -> None:
    with socket.create_server((address, PORT)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.close()
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)


def main() -> None:
    if sys.argv[1] in ("feed", "drain"):
        return globals()[sys.argv[1]]()
    role, engine, address, size, count = sys.argv[1:]
    if role == "answer":
        globals()[f"answer_{engine}"](address)
        return
    with globals()[f"asks_{engine}"](address) as exchange:
        print(json.dumps(times_of(exchange, int(size), int(count))))


if __name__ == "__main__":
    main()
