"""The certificates of the tests are accepted and refused for the reasons that they are made for."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from support.bridge.certificates import Certificates, Identity, write_certificates

CLIENT, SERVER = "machine1", "machine2"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(tmp_path_factory.mktemp("certificates"), CLIENT, SERVER)


def side(
    certificates: Certificates, identity: Identity | None, protocol: ssl._SSLMethod
) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.authority)
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


def shake_hands(
    certificates: Certificates,
    client: Identity | None,
    server: Identity,
    name: str = SERVER,
) -> str:
    """The common name that the server sees; raises what either side says against it."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = side(certificates, client, ssl.PROTOCOL_TLS_CLIENT)
    two = side(certificates, server, ssl.PROTOCOL_TLS_SERVER)
    client_end = one.wrap_bio(down, up, server_hostname=name)
    server_end = two.wrap_bio(up, down, server_side=True)
    ends = [client_end, server_end]
    while ends:
        for end in ends.copy():
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
    seen: Any = server_end.getpeercert()
    (((_, common_name),),) = seen["subject"]
    return str(common_name)


def test_two_machines_accept_each_other_and_see_their_names(certificates: Certificates) -> None:
    machines = certificates.machines
    assert shake_hands(certificates, machines[CLIENT], machines[SERVER]) == CLIENT


@pytest.mark.parametrize("kind", ["expired", "strangers"])
def test_certificates_that_are_expired_or_of_another_authority_are_refused(
    certificates: Certificates, kind: str
) -> None:
    bad, machines = getattr(certificates, kind), certificates.machines
    why = "has expired" if kind == "expired" else "unable to get local issuer certificate"
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        shake_hands(certificates, bad[CLIENT], machines[SERVER])
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        shake_hands(certificates, machines[CLIENT], bad[SERVER])


def test_a_client_without_a_certificate_is_refused(certificates: Certificates) -> None:
    with pytest.raises(ssl.SSLError, match="did not return a certificate"):
        shake_hands(certificates, None, certificates.machines[SERVER])


def test_a_machine_is_not_another_one(certificates: Certificates) -> None:
    machines = certificates.machines
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(certificates, machines[CLIENT], machines[SERVER], name="machine3")


def test_a_certificate_can_be_for_an_address(tmp_path: Path) -> None:
    certificates = write_certificates(tmp_path, f"{CLIENT} 10.77.0.1", f"{SERVER} 10.77.0.2")
    machines = certificates.machines
    assert shake_hands(certificates, machines[CLIENT], machines[SERVER], "10.77.0.2") == CLIENT


def test_only_the_owner_can_read_a_key(certificates: Certificates) -> None:
    for identity in certificates.machines.values():
        assert identity.key.stat().st_mode & 0o777 == 0o600
