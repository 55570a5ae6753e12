"""The access to received tensors, and their library."""

from __future__ import annotations

from tensorbus import _core
from tensorbus._base.arguments import Access, access_named
from tensorbus._base.errors import InvalidArgument
from tensorbus._tensors.library import Library, library_or_none

_SHARED = 'the queue has shared=True, and the access to its tensors is "shared"'
_NOT_SHARED = "the queue was made without shared=True"


class Receives:
    """Access and library of the tensors that one `Queue` gets.

    Raises:
        InvalidArgument: `access` or `library` is invalid, or `access` does not fit `shared`.
    """

    def __init__(
        self, access: Access | None, library: Library | None, shared: bool | None = None
    ) -> None:
        """Checks the arguments; `shared` is that of the queue, `None` before it is opened."""
        if access is not None:
            access_named(access)
            if shared is not None and shared != (access == "shared"):
                raise InvalidArgument(f"access={access!r}: {_SHARED if shared else _NOT_SHARED}")
        self.access = access
        self.library = library_or_none(library)

    def apply_to(self, core: _core.Queue) -> None:
        """Sets the access of the core's queue, before its first get."""
        if self.access is not None:
            core.receive_with(access_named(self.access))
