"""Addresses of bridges."""

from __future__ import annotations

from tensorbus._base.errors import InvalidArgument

DEFAULT_PORT = 7447


def host_and_port(address: str) -> tuple[str, int]:
    """Returns the host and the port of an address.

    Raises:
        InvalidArgument: it is not an address.

    >>> host_and_port("gpu-host:7447"), host_and_port("[::1]")
    (('gpu-host', 7447), ('::1', 7447))
    """
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    fits = port.isdigit() and int(port) <= 65535 and name and (":" not in name or name != host)
    try:
        name.encode("idna")
    except UnicodeError:
        fits = False
    if not fits:
        raise InvalidArgument(f"{address!r} is no address: expected host:port, or [IPv6]:port")
    return name, int(port)
