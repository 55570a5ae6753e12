"""The configuration of a bridge, from a file or the options of the command."""

from __future__ import annotations

import math
import os
import re
import socket
import ssl
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec

import msgspec

from tensorbus._base.errors import InvalidArgument
from tensorbus.bridge._rules import Direction, Rules, TopicRule
from tensorbus.bridge._wire.addresses import host_and_port
from tensorbus.bridge._wire.compression import codecs
from tensorbus.bridge._wire.secret_files import require_private

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MIN_BUDGET = 16 << 20


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PEM files: this machine's certificate, its key, and the authority of all certificates."""

    certificate: str
    key: str
    authority: str


class _Direction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    allow: list[str] = msgspec.field(default_factory=lambda: ["*"])
    deny: list[str] = []
    machines: dict[str, list[str]] = {}


class _Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: str
    max_rate: float = 0.0
    max_bytes: float = 0.0
    priority: int = 0
    compress: bool = False


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = ""
    domain: str = ""
    listen: list[str] = []
    connect: list[str] = []
    trust_network: bool = False
    timeout: float = 10.0
    budget: int = 1 << 30
    zenoh: str = ""
    fleet: str = "default"
    tls: Tls | None = None
    export: _Direction = _Direction()
    import_: _Direction = msgspec.field(name="import", default=_Direction())
    topic: list[_Topic] = []


@dataclass(frozen=True)
class BridgeConfig:
    """The configuration of a bridge (docs/bridge.md).

    Args:
        name: the name of this machine for other machines; by default the host's name.
        domain: as for `Publisher`.
        listen: addresses `host:port` to listen on; none by default.
        connect: addresses of other bridges.
        tls: certificates. Without them connections are not encrypted, and any program that
            reaches the port may read and publish; `trust_network` must allow this explicitly.
        trust_network: see `tls`.
        timeout: seconds for which streams wait for a new connection after one was lost.
        budget: bytes of memory for data from other machines.
        rules: what may cross.
        zenoh: a Zenoh configuration file. The bridge connects to all bridges of its fleet on that
            network. Zenoh controls access and encryption.
        fleet: the name of the fleet.
    """

    name: str = field(default_factory=socket.gethostname)
    domain: str = ""
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    tls: Tls | None = None
    trust_network: bool = False
    timeout: float = 10.0
    budget: int = 1 << 30
    rules: Rules = field(default_factory=Rules)
    zenoh: str = ""
    fleet: str = "default"

    def check(self) -> None:
        """Checks all fields.

        Raises:
            InvalidArgument: a field is invalid, there is nothing to connect to or to listen on, or
                connections would be unprotected without `trust_network`.
        """
        if not self.listen and not self.connect and not self.zenoh:
            raise InvalidArgument(
                "a bridge needs an address to listen on, one to connect to, or a network of Zenoh"
            )
        if self.zenoh:
            _require_zenoh()
        if not re.fullmatch(r"[\w.-]+", self.fleet):
            raise InvalidArgument(f"fleet={self.fleet!r}: expected letters, digits and ._-")
        for address in (*self.listen, *self.connect):
            host_and_port(address)
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise InvalidArgument(f"timeout={self.timeout}: expected seconds above 0")
        if self.budget < _MIN_BUDGET:
            raise InvalidArgument(f"budget={self.budget}: expected at least 16 MiB")
        for topic in self.rules.topics:
            for name in ("max_rate", "max_bytes"):
                rate = getattr(topic, name)
                if not (math.isfinite(rate) and rate >= 0):
                    raise InvalidArgument(f"{name}={rate}: expected a rate of 0 or more")
            if topic.compress and not codecs():
                raise InvalidArgument(
                    "compress: zstandard is not installed: pip install 'tensorbus[bridge]'"
                )
        if self.tls is None and not self.trust_network and (self.listen or self.connect):
            raise InvalidArgument(
                "without certificates, any program that reaches this port can read and publish: "
                "set them in [tls], or pass --trust-network if all machines on this network are "
                "trusted"
            )


def load(path: str | os.PathLike[str]) -> BridgeConfig:
    """Returns the configuration in a file.

    Raises:
        InvalidArgument: the file is not TOML, or a field is unknown or has the wrong type.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        try:
            told = msgspec.convert(tomllib.load(file), _File)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise InvalidArgument(f"{os.fspath(path)}: {error}") from None
    topics = tuple(TopicRule(**msgspec.structs.asdict(one)) for one in told.topic)
    rules = Rules(_direction(told.export), _direction(told.import_), topics)
    return BridgeConfig(
        told.name or socket.gethostname(),
        told.domain,
        tuple(told.listen),
        tuple(told.connect),
        told.tls,
        told.trust_network,
        told.timeout,
        told.budget,
        rules,
        told.zenoh,
        told.fleet,
    )


def _require_zenoh() -> None:
    if find_spec("zenoh") is None:
        raise InvalidArgument("zenoh is not installed: pip install 'tensorbus[bridge]'")


def _direction(told: _Direction) -> Direction:
    machines = {name: tuple(patterns) for name, patterns in told.machines.items()}
    return Direction(tuple(told.allow), tuple(told.deny), machines)


def server_context(tls: Tls) -> ssl.SSLContext:
    """Returns the context for incoming connections: each needs a certificate of the authority.

    Raises:
        AccessDenied: other users may read the key.
        InvalidArgument: a file is invalid.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _with_certificates(context, tls)


def client_context(tls: Tls) -> ssl.SSLContext:
    """Returns the context for outgoing connections: the certificate must name the host."""
    return _with_certificates(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), tls)


def _with_certificates(context: ssl.SSLContext, tls: Tls) -> ssl.SSLContext:
    require_private(tls.key)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(tls.authority)
        context.load_cert_chain(tls.certificate, tls.key)
    except ssl.SSLError as error:
        files = ", ".join((tls.authority, tls.certificate, tls.key))
        raise InvalidArgument(f"{error} in {files}") from None
    return context
