"""Processes in Linux's namespaces, as containers are made of: docs/tasks/containers.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

import tensorbus as tb
from support.access import is_borrowed
from support.harness import PATIENCE, eventually

# A process of its own in each of them. It has a /dev/shm of its own, and the domain elsewhere.
UNSHARED = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
UNSHARED += ["--ipc", "--net", "--uts"]
INSIDE = """
    mount -t tmpfs none /dev/shm && mount -t proc none /proc &&
    mount --bind "$TENSORBUS_DOMAIN" /mnt && TENSORBUS_DOMAIN=/mnt exec "$@"
"""


def in_a_container(program: str) -> subprocess.Popen[str]:
    os.makedirs(os.environ["TENSORBUS_DOMAIN"], 0o700, exist_ok=True)
    shell = ["sh", "-c", INSIDE, "sh", sys.executable, "-c", dedent(program)]
    return subprocess.Popen(
        ["unshare", *UNSHARED, *shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = ["unshare", *UNSHARED, "sh", "-c", INSIDE, "sh", "true"]
    environment = {**os.environ, "TENSORBUS_DOMAIN": "/tmp"}
    return subprocess.run(tried, env=environment, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not may_unshare(), reason="namespaces cannot be made here")

PUBLISHER = """
    import os
    import numpy as np
    import tensorbus as tb

    assert os.getpid() == 1 and not os.listdir("/dev/shm")
    with tb.Publisher("image", reliable=True) as publisher:
        assert publisher.wait_for_subscribers(timeout=30)
        image = publisher.loan((64, 1024, 1024), dtype="uint8")  # more than a container's /dev/shm
        image[:] = 7
        publisher.publish(image)
        input()
"""

SUBSCRIBER = """
    import tensorbus as tb

    with tb.Subscriber("image", timeout=30) as subscriber:
        print(subscriber.receive().data.sum(), flush=True)
"""


def test_what_a_container_publishes_is_there_outside_by_reference() -> None:
    with tb.Subscriber("image", timeout=PATIENCE) as subscriber:
        with in_a_container(PUBLISHER) as publisher:
            image = subscriber.receive().data
            (topic,) = tb.list_topics()
            assert [one.pid for one in topic.publishers] == [1]  # as it sees itself
            publisher.communicate("\n")
        assert publisher.returncode == 0
        assert image.shape == (64, 1024, 1024)
        assert is_borrowed(image)
        assert (image == 7).all()


def test_two_containers_share_a_topic() -> None:
    with in_a_container(PUBLISHER) as publisher, in_a_container(SUBSCRIBER) as subscriber:
        assert subscriber.communicate(timeout=PATIENCE)[0] == f"{7 * 64 * 2**20}\n"
        publisher.communicate("\n")
    assert publisher.returncode == subscriber.returncode == 0


def test_a_container_that_is_killed_gives_back_what_it_held() -> None:
    holder = """
        import tensorbus as tb

        sample = tb.Subscriber("image", timeout=30).receive()
        print("held", flush=True)
        input()
    """
    with tb.Publisher("image", reliable=True) as publisher, in_a_container(holder) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        image = publisher.loan((1024, 1024), dtype="uint8")
        publisher.publish(image)
        del image
        assert subscriber.stdout is not None
        assert subscriber.stdout.readline() == "held\n"
        assert publisher.stats["bytes_in_flight"] > 0
        subscriber.kill()
        eventually(lambda: publisher.stats["bytes_in_flight"] == 0)
