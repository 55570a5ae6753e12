"""Recordings in the `mcap` package from PyPI: see docs/recording.md, section "Files of others".

>>> import tempfile
>>> import numpy as np
>>> import tensorbus as tb
>>> path = tempfile.mkdtemp() + "/run.mcap"
>>> with tb.Publisher("doc/mcap", reliable=True) as publisher:
...     with tb.Recorder(path, "doc/mcap", reliable=True):
...         publisher.wait_for_subscribers(timeout=10)
...         _ = publisher.publish({"id": 7, "image": np.zeros((2, 3), np.uint8)})
True
>>> from mcap.reader import make_reader
>>> with open(path, "rb") as file:
...     reader = make_reader(file, decoder_factories=[DecoderFactory()])
...     for schema, channel, message, data in reader.iter_decoded_messages():
...         print(channel.topic, data["id"], data["image"].shape)
doc/mcap 7 (2, 3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorbus._recording.message_data import ENCODING, decode
from tensorbus._recording.recorded_tensor import TensorRestorer
from tensorbus._tensors.library import Library, library_or_none

if TYPE_CHECKING:
    from mcap.decoder import DecoderFactory as _Base
    from mcap.records import Schema
else:
    _Base = object  # so that the package is not imported before it is used

__all__ = ["DecoderFactory"]


class DecoderFactory(_Base):
    """Decodes messages of recordings for `mcap.reader.make_reader`.

    A decoded message is what `Recording` gives as `sample.data`. Its arrays are read-only views of
    the bytes that the reader has read; arrays whose elements are not aligned there are copies.
    Tensors of PyTorch are views, too, and must not be written to.

    Args:
        library: the library of the tensors; by default the library of the publisher.

    Raises:
        InvalidArgument: the library is unknown. Decoders raise it for damaged messages, and
            `ProtocolError` and `Unsupported` as `Sample.data` does.
    """

    def __init__(self, *, library: Library | None = None) -> None:
        self._library = library_or_none(library)

    def decoder_for(
        self, message_encoding: str, schema: Schema | None
    ) -> Callable[[bytes], Any] | None:
        """The decoder of messages with this encoding; `None` for those of other programs."""
        return self._decode if message_encoding == ENCODING else None

    def _decode(self, data: bytes) -> Any:
        message = decode(data)
        restorer = TensorRestorer(message.tensors, self._library)
        return restorer.decode(message.fields) if message.fields else restorer.tensor(0)
