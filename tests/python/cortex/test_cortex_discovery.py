"""Cortex's discovery client over the domain, and a daemon that is not needed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time

import pytest

from support.harness import PATIENCE, Elsewhere, hear, tell
from tensorbus.cortex import Publisher
from tensorbus.cortex.discovery import DiscoveryClient, DiscoveryDaemon, TopicInfo
from tensorbus.cortex.messages.standard import IntMessage


def publish() -> None:
    hear()
    with Publisher("/number", IntMessage, node_name="source") as publisher:
        tell(publisher.address)
        hear()


def test_a_client_sees_the_topics_of_other_processes(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(publish)
    with DiscoveryClient("ipc:///tmp/no_daemon", timeout_ms=200, retries=1) as client:
        assert client.ping()
        assert client.lookup_topic("/number") is None
        assert client.list_topics() == []
        threading.Timer(0.1, other.tell).start()
        found = client.wait_for_topic("/number", timeout=PATIENCE, poll_interval=0.1)
        assert found == TopicInfo(
            "/number", other.hear(), "IntMessage", IntMessage.fingerprint(), "source"
        )
        assert client.lookup_topic("/number") == found
        assert client.list_topics() == [found]
        assert asyncio.run(client.wait_for_topic_async("/number", timeout=PATIENCE)) == found
        other.tell()
        other.finish()
        assert client.lookup_topic("/number") is None


def test_waiting_for_a_topic_ends_after_its_time() -> None:
    client = DiscoveryClient()
    for wait in (
        lambda: client.wait_for_topic("/number", timeout=0.05),
        lambda: asyncio.run(client.wait_for_topic_async("/number", 0.05, poll_interval=0.01)),
    ):
        begin = time.monotonic()
        assert wait() is None
        assert time.monotonic() - begin >= 0.05
    client.close()


def test_a_topic_is_registered_by_its_publisher(caplog: pytest.LogCaptureFixture) -> None:
    client = DiscoveryClient()
    assert not client.register_topic(TopicInfo("/number", "ipc:///a", "IntMessage", 7, "me"))
    assert "cannot be registered by hand" in caplog.text
    assert client.unregister_topic("/number")
    with Publisher("/number", IntMessage):
        found = client.lookup_topic("/number")
        assert found is not None
        assert client.register_topic(found)
        assert not client.unregister_topic("/number")


def test_a_daemon_says_that_it_is_not_needed_and_stays_until_it_is_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    daemon = DiscoveryDaemon("ipc:///tmp/d")
    assert daemon.address == "ipc:///tmp/d"
    for _ in range(2):
        daemon.stop()  # what does not run is not stopped
        thread = threading.Thread(target=daemon.start)
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        daemon.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert "no discovery daemon is needed" in caplog.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_its_command_says_so_and_stays_until_a_signal(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tensorbus.cortex.discovery.daemon"]
    process = subprocess.Popen(
        [*command, "--address", "ipc:///tmp/d", "--log-level", "DEBUG"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        assert "no discovery daemon is needed" in process.stderr.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
