"""Bridges with certificates: who is let in, who is not, and what both are told."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridges import Machine, appears, machines
from support.bridge.certificates import Authority, Certificates, Identity, write_certificates
from support.harness import PATIENCE, eventually

HOST = "127.0.0.1"
TO_THE_OTHER = "it may have refused this machine's certificate"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    return write_certificates(folder, f"here {HOST}", f"there {HOST}", f"other {HOST}")


def tls(certificates: Certificates, identity: Identity) -> list[str]:
    return [
        *("--certificate", str(identity.certificate), "--key", str(identity.key)),
        *("--authority", str(certificates.authority)),
    ]


def connect(
    certificates: Certificates,
    here: Machine,
    there: Machine,
    *more: str,
    server: Identity | None = None,
    client: Identity | None = None,
) -> None:
    """Starts both bridges; "there" connects."""
    server = server or certificates.machines["here"]
    client = client or certificates.machines["there"]
    here.start("--listen", here.address, *tls(certificates, server), *more, trust=False)
    here.status()
    there.start("--connect", here.address, *tls(certificates, client), trust=False)


def says(machine: Machine, *texts: str) -> None:
    """Waits until the bridge has logged one of the texts."""
    eventually(lambda: any(text in machine.output for text in texts))


def nothing_crosses(here: Machine, there: Machine) -> None:
    with tb.Publisher[Any]("data", domain=here.domain):
        assert here.status()["peers"] == []
        assert there.status()["peers"] == []
        assert "data" not in there.topics()


def test_bridges_with_certificates_of_one_authority_connect(
    tmp_path: Path, certificates: Certificates
) -> None:
    with machines(tmp_path, "here", "there") as (here, there):
        connect(certificates, here, there)
        there.wait_for_peer("here")
        with tb.Publisher[Any]("data", reliable=True, domain=here.domain) as publisher:
            appears(there, "data")
            with tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber:
                assert publisher.wait_for_subscribers(timeout=PATIENCE)
                for number in range(20):
                    size = 10 if number % 2 else 3_000_000
                    data = np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)
                    publisher.publish(data)
                    assert np.array_equal(subscriber.receive().data, data)


WITHOUT_UVLOOP = (
    "import sys; sys.modules['uvloop'] = None; "
    "from tensorbus._cli.command import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_two_busy_topics_do_not_mix_their_bytes(
    tmp_path: Path, certificates: Certificates, loop: str
) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    topics = {"small": 300_000, "large": 3_000_000}
    count = 40

    def content(topic: str, number: int) -> np.ndarray:
        whole = np.arange(number, number + topics[topic] // 4, dtype=np.uint32)
        return whole if topic == "small" else ~whole

    def publish(topic: str, publisher: tb.Publisher[Any]) -> None:
        for number in range(count):
            publisher.publish(content(topic, number), timeout=PATIENCE)

    with machines(tmp_path, "here", "there") as (here, there):
        if loop == "asyncio":
            here.program = there.program = [sys.executable, "-c", WITHOUT_UVLOOP]
        connect(certificates, here, there)
        there.wait_for_peer("here")
        with ExitStack() as stack:
            wrong, threads = [], []
            subscribers = {
                topic: stack.enter_context(
                    tb.Subscriber[Any](topic, domain=there.domain, timeout=PATIENCE)
                )
                for topic in topics
            }
            for topic in topics:
                publisher = stack.enter_context(
                    tb.Publisher[Any](topic, reliable=True, domain=here.domain)
                )
                assert publisher.wait_for_subscribers(timeout=PATIENCE)
                threads.append(threading.Thread(target=publish, args=(topic, publisher)))
            for thread in threads:
                thread.start()
            for number in range(count):
                for topic, subscriber in subscribers.items():
                    if not np.array_equal(subscriber.receive().data, content(topic, number)):
                        wrong.append((topic, number))
            for thread in threads:
                thread.join()
        assert not wrong


@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("expired", "certificate has expired"),
        ("strangers", "unable to get local issuer certificate"),
    ],
)
def test_a_certificate_that_is_expired_or_of_another_authority_is_refused(
    tmp_path: Path,
    certificates: Certificates,
    end: str,
    kind: str,
    why: str,
) -> None:
    bad = getattr(certificates, kind)
    with machines(tmp_path, "here", "there") as (here, there):
        if end == "client":
            connect(certificates, here, there, client=bad["there"])
            says(here, why)
            says(there, TO_THE_OTHER)
        else:
            connect(certificates, here, there, server=bad["here"])
            says(there, why)
            says(here, TO_THE_OTHER)
        nothing_crosses(here, there)


def test_a_peer_without_a_certificate_is_refused(
    tmp_path: Path, certificates: Certificates
) -> None:
    with machines(tmp_path, "here", "there") as (here, there):
        own = tls(certificates, certificates.machines["here"])
        here.start("--listen", here.address, *own, trust=False)
        here.status()
        there.start("--connect", here.address)  # it trusts its network
        says(here, "wrong version number", "not encrypted")
        says(there, "hung up", "Connection reset")
        nothing_crosses(here, there)


def test_a_tls_client_without_a_certificate_is_refused(
    tmp_path: Path, certificates: Certificates
) -> None:
    import socket
    import ssl

    context = ssl.create_default_context(cafile=str(certificates.authority))
    with machines(tmp_path, "here") as (here,):
        own = tls(certificates, certificates.machines["here"])
        here.start("--listen", here.address, *own, trust=False)
        here.status()
        with (
            socket.create_connection((HOST, here.port), PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as stranger,
            suppress(ConnectionError),
        ):
            assert stranger.recv(1) == b""
        says(here, "did not return a certificate")


@pytest.mark.parametrize("end", ["client", "server"])
def test_a_machine_whose_name_is_not_in_its_certificate_is_refused(
    tmp_path: Path, certificates: Certificates, end: str
) -> None:
    other = certificates.machines["other"]
    with machines(tmp_path, "here", "there") as (here, there):
        if end == "client":
            connect(certificates, here, there, client=other)
            liar, judge = there, here
        else:
            connect(certificates, here, there, server=other)
            liar, judge = here, there
        text = f"HELLO.machine: '{liar.name}', and the certificate is of"
        says(judge, text)
        says(liar, f'the peer says: "{text}')
        with tb.Publisher[Any]("data", domain=here.domain):
            assert judge.status()["peers"] == []
            assert "data" not in there.topics()


def test_a_certificate_of_an_address_alone_names_no_machine(
    tmp_path: Path, certificates: Certificates
) -> None:
    authority = Authority(tmp_path / "authority")
    here_has, there_has = (authority.issue(*names) for names in (["here", HOST], [HOST]))
    trusted = certificates._replace(authority=authority.certificate)
    with machines(tmp_path, "here", "there") as (here, there):
        connect(trusted, here, there, server=here_has, client=there_has)
        says(here, "HELLO.machine: 'there'")


def test_a_server_whose_certificate_is_for_another_host_is_refused(
    tmp_path: Path, certificates: Certificates
) -> None:
    authority = Authority(tmp_path / "authority")
    here_has, there_has = authority.issue("here"), authority.issue("there")
    trusted = certificates._replace(authority=authority.certificate)
    with machines(tmp_path, "here", "there") as (here, there):
        connect(trusted, here, there, server=here_has, client=there_has)
        says(there, "certificate is not valid for '127.0.0.1'", "IP address mismatch")
        nothing_crosses(here, there)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_may_read_is_refused(
    tmp_path: Path, certificates: Certificates, mode: int
) -> None:
    good = certificates.machines["here"]
    key = tmp_path / "copy.key"
    key.write_bytes(good.key.read_bytes())
    key.chmod(mode)
    with machines(tmp_path, "here") as (here,):
        identity = Identity(good.certificate, key)
        here.start("--listen", here.address, *tls(certificates, identity), trust=False)
        assert here.wait() == 2
        assert f"{key}: others may read this key; chmod 600 it" in here.output


def test_a_key_and_a_certificate_that_do_not_belong_together_are_refused(
    tmp_path: Path, certificates: Certificates
) -> None:
    one, two = certificates.machines["here"], certificates.machines["there"]
    with machines(tmp_path, "here") as (here,):
        options = tls(certificates, Identity(one.certificate, two.key))
        here.start("--listen", here.address, *options, trust=False)
        assert here.wait() == 2
        assert "key values mismatch" in here.output
        assert str(one.certificate) in here.output


@pytest.mark.parametrize("direction", ["export", "import"])
def test_what_may_cross_depends_on_the_certified_name(
    tmp_path: Path, certificates: Certificates, direction: str
) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text(
        f'[{direction}]\nallow = ["common"]\nmachines = {{ "there" = ["for/there"] }}\n'
    )
    names = ("for/there", "common", "other")
    with machines(tmp_path, "here", "there", "other") as (here, there, other):
        connect(certificates, here, there, "--config", str(config))
        own = tls(certificates, certificates.machines["other"])
        other.start("--connect", here.address, *own, trust=False)
        for machine in (there, other):
            machine.wait_for_peer("here")
        if direction == "export":
            publishers = [tb.Publisher[Any](name, domain=here.domain) for name in names]
            appears(there, "for/there")
            appears(other, "common")
            assert set(there.topics()) == {"for/there"}
            assert set(other.topics()) == {"common"}
        else:
            publishers = [
                tb.Publisher[Any](name, domain=machine.domain)
                for machine in (there, other)
                for name in names
            ]
            appears(here, "for/there")
            appears(here, "common")
            found = {name: {one.machine for one in here.topics()[name]} for name in here.topics()}
            assert found == {"for/there": {"there"}, "common": {"other"}}
        for publisher in publishers:
            publisher.close()
