from collections.abc import Sequence
import enum

from typing_extensions import CapsuleType


version: str = '0.1.0'

class Code(enum.IntEnum):
    """Why a call failed."""

    INVALID_ARGUMENT = 0

    UNSUPPORTED = 1

    OUT_OF_MEMORY = 2

    CLOSED = 3

    TIMEOUT = 4

    PROTOCOL = 5

    VERSION_MISMATCH = 6

    PERMISSION = 7

    FORKED = 8

    SYSTEM = 9

class TensorFlags(enum.IntFlag):
    __str__ = __repr__

    def __repr__(self, /):
        """Return repr(self)."""

    REQUIRES_GRAD = 2

    FROM_TORCH = 4

    FROM_NUMPY = 8

    PARAMETER = 16

class TensorView:
    """A tensor that lies somewhere in this process. Strides are in elements."""

    def __init__(self, address: int, dtype: str, shape: Sequence[int], strides: Sequence[int], flags: int = 0) -> None: ...

class Memory:
    """
    Memory of the bus: a received tensor (read-only) or a loan. Offers the buffer protocol; strides are in elements.
    """

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple: ...

    @property
    def strides(self) -> tuple: ...

    @property
    def flags(self) -> int: ...

    @property
    def writable(self) -> bool: ...

    def dlpack(self) -> CapsuleType:
        """A DLPack capsule; whoever takes it keeps the memory."""

class Outcome(enum.Enum):
    """What became of a call that may wait."""

    DONE = 0

    TIMED_OUT = 1

    INTERRUPTED = 2

    CLOSED = 3

    HOLD_LIMIT = 4

class Participant:
    """This process on one domain."""

    @staticmethod
    def shared(domain: str = '', budget_bytes: int = 0) -> Participant: ...

    @property
    def id(self) -> str: ...

    @property
    def domain(self) -> str: ...

    @property
    def arena(self) -> dict[str, int]: ...

class Sample:
    """One received message."""

    @property
    def sequence(self) -> int: ...

    @property
    def timestamp_ns(self) -> int: ...

    @property
    def fingerprint(self) -> int: ...

    @property
    def topic(self) -> str: ...

    @property
    def publisher(self) -> str: ...

    @property
    def publisher_number(self) -> int: ...

    @property
    def tensors(self) -> list[Memory]: ...

    @property
    def fields(self) -> bytes: ...

class Publisher:
    def __init__(self, topic: str, participant: Participant, *, depth: int, history: int, reliable: bool) -> None: ...

    def loan(self, dtype: str, shape: Sequence[int]) -> Memory: ...

    def publish(self, tensors: Sequence[TensorView], fields: bytes, fingerprint: int, timeout: float | None) -> tuple[Outcome, int]: ...

    def wait_for_subscribers(self, count: int, timeout: float | None) -> Outcome: ...

    @property
    def stats(self) -> dict[str, int]: ...

    def close(self) -> None: ...

class Subscriber:
    def __init__(self, topic: str, participant: Participant, *, depth: int, max_held: int, spin: float) -> None: ...

    def receive(self, timeout: float | None) -> Sample | Outcome:
        """A Sample, or the Outcome that says why there is none."""

    def try_receive(self) -> Sample | Outcome: ...

    def ready(self) -> bool: ...

    def fileno(self) -> int: ...

    def wait_for_publishers(self, count: int, timeout: float | None) -> Outcome: ...

    @property
    def stats(self) -> dict[str, int | str]: ...

    def close(self) -> None: ...
