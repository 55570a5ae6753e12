"""Certificates for mutual TLS, for the tests of which machines may talk to each other.

certificates = write_certificates(tmp_path, "machine1", "machine2")
certificates.authority              # a file: what a machine trusts
certificates.machines["machine1"]   # its certificate and its key, two files
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

YEAR = datetime.timedelta(days=365)


class Identity(NamedTuple):
    """Two files in PEM. Only their owner may read the key (mode 0600)."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates that are valid for a year, into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._name = name_of(f"Authority of {folder.name}")
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._public = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        usage = x509.KeyUsage(
            key_cert_sign=True,
            crl_sign=True,
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        own = self._builder(self._name, self._key.public_key(), now() - 2 * YEAR, now() + 2 * YEAR)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        own = own.add_extension(usage, critical=True)
        self.certificate = folder / "authority.pem"
        self._write(own, self.certificate)

    def issue(self, name: str, *names: str, expired: bool = False) -> Identity:
        """The common name is `name`; valid for it and for other names and addresses.

        An expired one is no longer valid since yesterday.
        """
        end = now() - YEAR / 365 if expired else now() + YEAR
        key = ec.generate_private_key(ec.SECP256R1())
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        alternatives = x509.SubjectAlternativeName([general(each) for each in (name, *names)])
        builder = self._builder(name_of(name), key.public_key(), end - YEAR, end)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), False)
        builder = builder.add_extension(alternatives, False)
        stem = f"{name}-expired" if expired else name
        identity = Identity(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")
        self._write(builder, identity.certificate)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        with open(os.open(identity.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
        return identity

    def _builder(
        self,
        subject: x509.Name,
        public: ec.EllipticCurvePublicKey,
        begin: datetime.datetime,
        end: datetime.datetime,
    ) -> x509.CertificateBuilder:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._public)
        return (
            x509.CertificateBuilder(issuer_name=self._name, subject_name=subject)
            .serial_number(x509.random_serial_number())
            .public_key(public)
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(issuer, critical=False)
        )

    def _write(self, builder: x509.CertificateBuilder, file: Path) -> None:
        certificate = builder.sign(self._key, hashes.SHA256())
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


class Certificates(NamedTuple):
    authority: Path
    machines: dict[str, Identity]
    expired: dict[str, Identity]  # those that each machine had before
    strangers: dict[str, Identity]  # of the same names, from an authority that nobody here trusts


def write_certificates(folder: Path, *machines: str) -> Certificates:
    """For machines of these names; a name with its address is written "machine1 10.77.0.1"."""
    authority, other = Authority(folder / "trusted"), Authority(folder / "untrusted")
    names = {machine.split()[0]: machine.split() for machine in machines}
    return Certificates(
        authority.certificate,
        {name: authority.issue(*all_names) for name, all_names in names.items()},
        {name: authority.issue(*all_names, expired=True) for name, all_names in names.items()},
        {name: other.issue(*all_names) for name, all_names in names.items()},
    )


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def name_of(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
