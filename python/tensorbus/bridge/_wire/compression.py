"""Compression of tensors for slow networks: one zstd frame (RFC 8878) per chunk."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from tensorbus._base.errors import ProtocolError

ZSTD = "zstd"
_LEVEL = 1  # the fastest regular level of zstd


def codecs() -> list[str]:
    """Returns the codecs that this bridge can read and write; zstandard is an extra."""
    return [ZSTD] if find_spec("zstandard") is not None else []


def compressed(data: bytes | memoryview) -> bytes | None:
    """Returns the compressed bytes; None if they would not be shorter."""
    made: bytes = _coders()[0].compress(data)
    return made if len(made) < len(data) else None


def decompressed(data: bytes, most: int) -> bytes:
    """Returns the bytes of a compressed chunk. The data is not trusted.

    Raises:
        ProtocolError: the data is invalid, or has more than `most` bytes.
    """
    import zstandard

    try:
        size = zstandard.frame_content_size(data)
        if not 0 < size <= most:
            raise ProtocolError(f"ZSTD: {size} bytes in a chunk")
        found: bytes = _coders()[1].decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ProtocolError(f"ZSTD: {error}") from None
    return found


@cache
def _coders() -> tuple[Any, Any]:
    import zstandard

    return zstandard.ZstdCompressor(level=_LEVEL), zstandard.ZstdDecompressor()
