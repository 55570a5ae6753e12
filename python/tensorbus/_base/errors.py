"""The exceptions: all are a `tensorbus.Error`, and most are a built-in exception, too."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 13):
    from queue import ShutDown as _StandardShutDown
else:

    class _StandardShutDown(Exception):
        """`queue.ShutDown` of Python 3.13."""


class Error(Exception):
    """The base class of all exceptions of Tensorbus."""


class InvalidArgument(Error, ValueError):
    """An argument is invalid, for example an empty topic, or a loan that was published before."""


class Unsupported(Error, TypeError):
    """A value cannot be sent, or a feature is missing; the message names a remedy."""


class CannotTravel(Exception):
    """Internal: a value, and why it is refused. Users get `Unsupported` instead."""

    def __init__(self, value: object, why: str) -> None:
        super().__init__(why)
        self.value = value
        self.why = why


class MessageError(Error, TypeError):
    """A message, or one of its fields, does not have its declared type; the text names which."""


class OutOfMemory(Error, MemoryError):
    """A limit was reached; the message names it."""


class Closed(Error):
    """The object is closed, or its stream or its process has ended."""


class ShutDown(Closed, _StandardShutDown):
    """The queue was shut down: `put` is refused, or no item is left for `get`.

    It is also a `queue.ShutDown` from Python 3.13 on.
    """


class Timeout(Error, TimeoutError):
    """The timeout has passed."""


class HoldLimit(Error):
    """A subscriber holds `max_held` samples of one publisher, and more are waiting."""


class ProtocolError(Error):
    """A peer violated the protocol."""


class VersionMismatch(ProtocolError):
    """A peer has another version of the protocol."""


class AccessDenied(Error, PermissionError):
    """The domain directory, or a peer, belongs to another user."""


class Forked(Error, RuntimeError):
    """The object was made before fork() and is used in the child."""


class TypeMismatch(Error, TypeError):
    """Publisher and subscriber, or client and service, have different types; both are shown."""


class WorkerDied(Error, RuntimeError):
    """A worker of a pool died during a task; the message names its exit status or signal."""


class RunTimeout(Timeout):
    """A worker of a pool was ended: it had run an item for longer than `run_timeout`."""


class Refused(Error):
    """Raised by the callback of a service to refuse a request; the service does not log it.

    The client gets a `ServiceError` with its text; `kind` is "Refused", or the name of a subclass.

    >>> class Busy(Refused):
    ...     pass
    >>> isinstance(Busy("12 requests wait"), Refused)
    True
    """


class ServiceError(Error, RuntimeError):
    """The callback of a service raised; `__cause__` has its traceback, unless it has `Refused`."""

    kind: str = ""
    """The name of the exception's class, for example "ValueError"."""
    text: str = ""
    """The text of that exception."""


class SystemCallError(Error, OSError):
    """A system call failed; the message names the reason. `errno` is `None`."""


for _kind in list(vars().values()):
    if isinstance(_kind, type) and issubclass(_kind, Error):
        _kind.__module__ = "tensorbus"

# The class for each tensorbus._core.Code, by its value.
BY_CODE: tuple[type[Error], ...] = (
    InvalidArgument,
    Unsupported,
    OutOfMemory,
    Closed,
    Timeout,
    ProtocolError,
    VersionMismatch,
    AccessDenied,
    Forked,
    SystemCallError,
    TypeMismatch,
)
