"""Messages as dicts, whichever types they and their fields have."""

from __future__ import annotations

from typing import Any

from tensorbus._codec.fields import Restorer
from tensorbus._tensors.library import Library
from tensorbus._topics.sample import Sample


def plain_data(sample: Sample[Any], library: Library) -> Any:
    """The data of a sample, with a dict for each message in it.

    The classes of these messages need not be defined in this process.

    Raises:
        ProtocolError: the publisher sent malformed fields.
        Unsupported: this process, or the library, cannot represent a value.
    """
    restorer = Restorer(sample._core, library)
    restorer.types = _EveryType()
    fields = sample._core.fields
    return restorer.decode(fields) if fields else restorer.tensor(0)


class _EveryType(dict[str, Any]):
    """Message types by name: for each name, one whose messages are their fields."""

    def get(self, name: object, default: Any = None) -> Any:
        return _FieldsOnly


class _FieldsOnly:
    @staticmethod
    def received(fields: object, library: Library | None = None) -> object:
        return fields
