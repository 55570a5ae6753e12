"""The only field of a request that a bridge reads and writes: the address for the answer."""

from __future__ import annotations

from msgspec import DecodeError, Raw, msgpack

from tensorbus._base.errors import ProtocolError

MAX_CALLS = 256  # max. pending calls of a channel; each needs descriptors where the service is

_decoder = msgpack.Decoder(dict[str, Raw])
_address = msgpack.Decoder(str)


def reply_of(fields: bytes) -> str:
    """Returns the address for the answer to a request.

    Raises:
        ProtocolError: it is not a request.
    """
    try:
        return _address.decode(_parts(fields)["reply"])
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a request: {error}") from None


def with_reply(fields: bytes, address: str) -> bytes:
    """Returns the request with another address. The bytes of all other fields are unchanged.

    Raises:
        ProtocolError: it is not a request.
    """
    parts = _parts(fields)
    parts["reply"] = Raw(msgpack.encode(address))
    return msgpack.encode(parts)


def _parts(fields: bytes) -> dict[str, Raw]:
    try:
        parts = _decoder.decode(fields)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a request: {error}") from None
    if "reply" not in parts:
        raise ProtocolError("a request without an address for its answer")
    return parts
