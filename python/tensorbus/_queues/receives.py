"""The access to received tensors, their library, and whether their memory is pinned for GPUs."""

from __future__ import annotations

from tensorbus import _core
from tensorbus._base.arguments import Access, access_named
from tensorbus._base.errors import InvalidArgument
from tensorbus._tensors.library import Library, library_or_none

_SHARED = 'the queue has shared=True, and the access to its tensors is "shared"'
_NOT_SHARED = "the queue was made without shared=True"


class Receives:
    """How one `Queue` receives tensors.

    Raises:
        InvalidArgument: `access` or `library` is invalid, or `access` does not fit `shared`.
    """

    def __init__(
        self,
        access: Access | None,
        library: Library | None,
        pin: bool = False,
        *,
        shared: bool | None = None,
    ) -> None:
        """Checks the arguments; `shared` is that of the queue, `None` before it is opened."""
        if access is not None:
            access_named(access)
            if shared is not None and shared != (access == "shared"):
                raise InvalidArgument(f"access={access!r}: {_SHARED if shared else _NOT_SHARED}")
        self.access = access
        self.library = library_or_none(library)
        self.pin = pin

    def require_pinning(self) -> None:
        """Starts the GPU driver if items are to be pinned.

        Raises:
            Unsupported: this process cannot pin memory.
            InvalidArgument: memory with this access is never pinned.
        """
        if self.pin:
            _core.Queue.require_pinning(access_named(self.access or "copy-on-write"))

    def apply_to(self, core: _core.Queue) -> None:
        """Sets up the core's queue, before its first get."""
        if self.access is not None:
            core.receive_with(access_named(self.access))
        if self.pin:
            core.pin_later()
