"""One end of a plain connection in asyncio, for python_bridge: messages of one size, one after the
other, into one buffer.

    python asyncio_tcp.py receive|send ADDRESS SIZE COUNT

The receiver says "ready" when it listens. Both say in JSON what their part took.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import resource
import socket
import sys
import time

PORT = 7000


def processor_time() -> float:
    """Seconds of this process, in it and in the kernel for it."""
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def buffer(size: int) -> memoryview:
    """Memory that was written before, as that of a recycled loan was."""
    memory = memoryview(mmap.mmap(-1, size))
    memory[:] = bytes(size)
    return memory


async def receive(address: str, size: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    memory = buffer(size)
    with socket.create_server((address, PORT)) as listener:
        listener.setblocking(False)
        print("ready", flush=True)
        connection, _ = await loop.sock_accept(listener)
    with connection:
        begin, used = time.perf_counter(), processor_time()
        for _ in range(count):
            at = 0
            while at < size:
                received = await loop.sock_recv_into(connection, memory[at:])
                if received == 0:
                    sys.exit("the sender has ended")
                at += received
        say(begin, used)
        await loop.sock_sendall(connection, b"all")


async def send(address: str, size: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    memory = buffer(size)
    with socket.create_connection((address, PORT)) as connection:
        connection.setblocking(False)
        begin, used = time.perf_counter(), processor_time()
        for _ in range(count):
            await loop.sock_sendall(connection, memory)
        if await loop.sock_recv(connection, 3) != b"all":
            sys.exit("the receiver has ended")
        say(begin, used)


def say(begin: float, used: float) -> None:
    seconds = {"seconds": time.perf_counter() - begin, "processor": processor_time() - used}
    print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    end = {"receive": receive, "send": send}[sys.argv[1]]
    asyncio.run(end(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
