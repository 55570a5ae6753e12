"""The exception tree: catch `tensorbus.Error` for all of it, or the built-in beside it."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 13):
    from queue import ShutDown as _StandardShutDown
else:

    class _StandardShutDown(Exception):
        """`queue.ShutDown` of Python 3.13."""


class Error(Exception):
    """The base of everything that Tensorbus raises."""


class InvalidArgument(Error, ValueError):
    """A value that makes no sense: an empty topic, a loan that was published before."""


class Unsupported(Error, TypeError):
    """Something that cannot travel; the message says what to do about it."""


class CannotTravel(Exception):
    """Inside the package: a value, and why it is refused. Users see `Unsupported`."""

    def __init__(self, value: object, why: str) -> None:
        super().__init__(why)
        self.value = value
        self.why = why


class MessageError(Error, TypeError):
    """A message, or a field of one, is not of its declared type; the text says where."""


class OutOfMemory(Error, MemoryError):
    """A limit was reached; the message names it."""


class Closed(Error):
    """The object is closed."""


class ShutDown(Closed, _StandardShutDown):
    """The queue was shut down: it takes no items, and has none left.

    It is also `queue.ShutDown` where the standard library has that (Python 3.13).
    """


class Timeout(Error, TimeoutError):
    """The time given was not enough."""


class HoldLimit(Error):
    """A subscriber holds `max_held` samples of one publisher and there are more."""


class ProtocolError(Error):
    """A peer sent something that is not the protocol."""


class VersionMismatch(ProtocolError):
    """A peer speaks another version of the protocol."""


class AccessDenied(Error, PermissionError):
    """The domain directory, or a peer, belongs to somebody else."""


class Forked(Error, RuntimeError):
    """The object was made before fork() and is used in the child."""


class TypeMismatch(Error, TypeError):
    """A publisher and a subscriber of a topic mean different messages; both types are shown."""


class WorkerDied(Error, RuntimeError):
    """A process of a worker pool died at a task; the message says how."""


class ServiceError(Error, RuntimeError):
    """The callback of a service raised; `__cause__` has the traceback there."""


class SystemCallError(Error, OSError):
    """A system call failed."""


for _kind in list(vars().values()):
    if isinstance(_kind, type) and issubclass(_kind, Error):
        _kind.__module__ = "tensorbus"

# By the name of tensorbus._core.Code, in its order.
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
