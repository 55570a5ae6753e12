"""What a bridge reads of a request, and writes: the address that the answer is for."""

from __future__ import annotations

from msgspec import DecodeError, Raw, msgpack

from tensorbus._base.errors import ProtocolError

MOST_CALLS = 256  # of a channel, under way; each takes two descriptors of the side that asks

_decoder = msgpack.Decoder(dict[str, Raw])
_address = msgpack.Decoder(str)


def reply_of(fields: bytes) -> str:
    """Where the answer to a request is to go.

    Raises:
        ProtocolError: this is no request.
    """
    try:
        return _address.decode(_parts(fields)["reply"])
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a request: {error}") from None


def with_reply(fields: bytes, address: str) -> bytes:
    """The request with another address; all else is as it was, to the byte.

    Raises:
        ProtocolError: this is no request.
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
