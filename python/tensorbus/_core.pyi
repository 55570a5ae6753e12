from collections.abc import Mapping, Sequence
import enum
from typing import Any, Literal, overload

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

    TYPE_MISMATCH = 10

def set_errors(by_code: tuple[type[Exception], ...]) -> None:
    """Sets the exception class for each Code."""

def raise_system_error(what: str, error_number: int) -> None:
    """
    Raises the error of a failed system call. If a limit was reached, the text names it.
    """

class TensorFlags(enum.IntFlag):
    __str__ = __repr__

    def __repr__(self, /):
        """Return repr(self)."""

    REQUIRES_GRAD = 2

    FROM_TORCH = 4

    FROM_NUMPY = 8

    PARAMETER = 16

    CONJUGATE = 32

    NEGATIVE = 64

class Memory:
    """
    Memory of the bus: a received tensor, a loan, or a part of a file. Supports the buffer protocol and DLPack. Strides are in elements.
    """

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]: ...

    @property
    def flags(self) -> int: ...

    @property
    def writable(self) -> bool: ...

    def __dlpack__(self, *, stream: object | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> CapsuleType:
        """Returns a DLPack capsule. Its consumer keeps the memory alive."""

    def bits(self) -> Memory:
        """
        Returns the same memory, as unsigned integers if DLPack, or PyTorch before 2.10, has no type for its elements.
        """

    def packed(self) -> Memory:
        """
        Returns a writable copy without negative strides. Repeated elements (stride 0) stay repeated.
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

    @property
    def device(self) -> str:
        """"cpu", or the GPU, for example "cuda:0"."""

    @property
    def published_on(self) -> str:
        """
        The device of the publisher's tensor; differs from `device` if this process cannot use it.
        """

    def __repr__(self) -> str: ...

class FileMode(enum.Enum):
    """What writing to a mapped file does."""

    READ = 0

    READ_WRITE = 1

    COPY_ON_WRITE = 2

class MappedFile:
    """A part of a file, mapped into memory."""

    def __init__(self, fd: int, path: str, offset: int, bytes: int, mode: FileMode) -> None: ...

    @property
    def mode(self) -> FileMode: ...

    def memory(self, dtype: str, shape: Sequence[int], offset: int) -> Memory:
        """
        Returns a contiguous tensor, `offset` bytes after the first mapped byte.
        """

    def check(self) -> None: ...

    def flush(self) -> None: ...

def safetensors(fd: int, path: str) -> tuple[int, int, dict[str, tuple[str, str | None, int, list[int], int]], dict[str, str]]:
    """Returns the contents of the header of a .safetensors file."""

def flush_at(address: int) -> None:
    """Flushes the file that is mapped at this address."""

def is_in_file(address: int) -> bool:
    """Returns True if map_file() has mapped a file at this address."""

def allocate_file(fd: int, path: str, bytes: int) -> None:
    """Sets the size of a file to `bytes`, and allocates all its blocks."""

def plain_torch(memory: Memory) -> Any:
    """
    Returns a plain torch.Tensor over this memory; None if a plain one is not possible.
    """

def set_torch(tensor: type, dtypes: dict[Any, str]) -> None:
    """Sets the class of plain tensors, and the names of their dtypes."""

def private_copy(address: int, dtype: str, shape: Sequence[int], strides: Sequence[int]) -> Memory:
    """
    Returns a row-major copy of the elements in private memory. Strides are in elements.
    """

def check_coordinates(indices: Memory, sizes: Sequence[int], count: int, coalesced: bool) -> None: ...

def check_compressed(begins: Memory, columns: Memory, batches: int, size: int) -> None: ...

def check_jagged(offsets: Memory, lengths: Memory | None, rows: int) -> None: ...

def check_nested(sizes: Memory, strides: Memory, offsets: Memory, elements: int) -> None: ...

class Outgoing:
    """
    The tensors of a message to be published. Each add method returns the index of the added tensor.
    """

    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    def add(self, value: object) -> int:
        """
        Adds a plain torch.Tensor or numpy.ndarray: nothing but its elements and layout must be sent. Returns -1 for any other object.
        """

    def add_buffer(self, value: object, flags: int) -> int:
        """
        Adds an object with the buffer protocol whose elements have a dtype. Returns -1 for any other object.
        """

    def add_received(self, memory: Memory) -> int:
        """Adds a Memory as it is: a received one, or one of this process."""

    def add_capsule(self, capsule: CapsuleType, flags: int) -> int: ...

    def add_memory(self, address: int, dtype: str, shape: Sequence[int], strides: Sequence[int], flags: int, keeper: object, device: int = -1, stream: int = 0) -> int:
        """
        Adds memory that the caller describes. Strides are in elements. `keeper` is kept until the memory was copied; for GPU memory, as long as it is read. `device`: the ordinal of the GPU, -1 for main memory. `stream`: the CUDA stream that writes the memory.
        """

    def add_at(self, loan: memoryview, dtype: str, shape: Sequence[int], strides: Sequence[int], flags: int, offset: int) -> int:
        """
        Adds a tensor in a loan of bytes. Strides are in elements, the offset of the first element is in bytes. Raises InvalidArgument if the tensor reaches outside of the loan.
        """

    def set_stream(self, stream: int) -> None:
        """Sets the CUDA stream that writes all tensors on GPUs."""

def set_numpy(array: type, api: object, dtypes: list[Any]) -> None:
    """
    Sets the class of plain arrays, the capsule of NumPy's C interface, and NumPy's dtypes that have a name here.
    """

def set_codec(*, lower: Any, cannot_travel: Any, blamed: Any, refused: Any, restorer: Any, restore: Any, extension: Any, tensor_from: Any, shared_tensors: Any) -> None:
    """Sets the Python functions that handle rare values in messages."""

class MessagePlan:
    """The description of a message class."""

    def __init__(self, plan: object, cls: type, fields: list[tuple[str, set[type] | None, Any, Any, bool, bool]]) -> None:
        """
        `fields`: for each field its name, the classes that need no conversion (None: all), the functions that lower and restore a value of any other class, whether it is required, and whether __init__ takes it.
        """

def pack_message(outgoing: Any, message: object) -> bytes:
    """
    Returns the fields of a message, and adds its tensors to `outgoing`: an Outgoing, or an object with its methods. The fields are empty if the message is a single tensor.
    """

def pack_value(outgoing: Any, value: object) -> bytes:
    """
    Returns one value of a message as MessagePack, and adds its tensors to `outgoing`.
    """

def unpack(fields: bytes, restorer: Any, plan: MessagePlan | None = None) -> Any:
    """
    Returns the message with these fields. `restorer` provides its tensors.
    """

class Sample:
    """A received message."""

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
    def origin(self) -> tuple[str, str] | None:
        """
        For a sample of a mirror: the original machine, and the name of the publisher on that machine.
        """

    def ranges(self) -> tuple[list[memoryview], int, list[tuple[str, tuple[int, ...], tuple[int, ...], int, int]]]:
        """
        Returns the tensors as one run of bytes: the parts of the run; the size of the run in bytes; and for each tensor its dtype, shape, strides in elements, flags, and the offset of its first element in the run. Each part begins at the next multiple of 64 bytes after the end of the part before.
        """

    @property
    def published_on(self) -> tuple[str, ...]: ...

    @property
    def fields(self) -> bytes: ...

    @property
    def tensor_count(self) -> int: ...

    def tensors(self, as_: str | None) -> list[Any]:
        """
        Returns each tensor: as a torch.Tensor if `as_` is "torch" (None: if it was published as one) and a plain torch.Tensor is possible, otherwise as a Memory.
        """

    def message(self, library: str | None, plan: MessagePlan | None) -> Any:
        """
        Returns the published message with its tensors; with a plan, an instance of the message class.
        """

    def shared_storages(self, as_: str | None) -> list[tuple[Memory, list[tuple[int, int]]]]:
        """
        Returns each range of memory in which several torch tensors overlap, with the index of each of these tensors and its offset in bytes.
        """

    def memory(self, index: int) -> Memory: ...

    def own_memories(self) -> list[Memory]:
        """
        Returns writable memory for each tensor. Writes are not visible to other processes or in other received data.
        """

    def use_on(self, stream: int, of: int = -1) -> None: ...

    @property
    def intact(self) -> bool: ...

    @property
    def traced(self) -> bool:
        """True if the sample was received while a tracer was active."""

    def copy(self) -> Sample: ...

class Outcome(enum.Enum):
    """The outcome of a call that may wait."""

    DONE = 0

    TIMED_OUT = 1

    INTERRUPTED = 2

    CLOSED = 3

    HOLD_LIMIT = 4

    SHUT_DOWN = 5

class Access(enum.Enum):
    """How a subscriber may access received tensors."""

    COPY_ON_WRITE = 0

    READ = 1

    PRIVATE = 2

    SHARED = 3

class Participant:
    """This process in a domain."""

    @staticmethod
    def shared(domain: str = '', budget_bytes: int = 0) -> Participant: ...

    @property
    def id(self) -> str: ...

    def __repr__(self) -> str: ...

    @property
    def domain(self) -> str: ...

    @property
    def domain_changes(self) -> int:
        """
        A counter that grows when files of the domain may have been added or removed.
        """

    def domain_fileno(self) -> int:
        """
        Returns a descriptor to poll: readable when domain_changes may have grown since it was cleared.
        """

    def clear_domain_fileno(self) -> None: ...

    def subscribers_fileno(self) -> int:
        """
        Returns a descriptor to poll: readable when publishers of this participant have gained or lost subscribers since take_changed_publishers().
        """

    def take_changed_publishers(self) -> list[int]:
        """
        Returns the numbers of publishers that have gained or lost subscribers since the last call.
        """

    @property
    def arena(self) -> dict[str, int]: ...

class Publisher:
    def __init__(self, topic: str, participant: Participant, *, depth: int, history: int, reliable: bool, lag_timeout: float | None, shared: bool, isolated: bool = False, type: str = '', node: str = '', origin: tuple[str, str] = ('', '')) -> None: ...

    def loan(self, dtype: str, shape: Sequence[int], device: int = -1, timeout: float | None = None) -> Memory: ...

    def loan_plain(self, dtype: object, shape: object) -> Any:
        """
        Returns a loan as a plain PyTorch tensor or NumPy array: `dtype` is a torch.dtype, a dtype of NumPy or a name. Returns None for any other dtype, if a plain tensor is not possible, or if the shape is not a tuple or list of ints.
        """

    def publish(self, outgoing: Outgoing, fields: bytes, timeout: float | None) -> int | Outcome:
        """
        Returns the number of subscribers that got the message, or the Outcome if it was not published.
        """

    def publish_any(self, data: object, timeout: float | None, stream: int | None = None, plan: MessagePlan | None = None) -> int | Outcome:
        """
        Like publish(), for any message. `stream`: the CUDA stream that writes all tensors on GPUs.
        """

    def publish_many(self, rows: object, timeout: float | None) -> tuple[Outcome, int] | None:
        """
        Publishes each row of a plain array or tensor as a message. Returns the outcome and the number of published rows; None for any other object.
        """

    def loan_bytes(self, bytes: int, timeout: float | None) -> memoryview:
        """Returns memory to fill. Outgoing.add_at() adds tensors in it."""

    def publish_as(self, outgoing: Outgoing, fields: bytes, fingerprint: int, sequence: int, timestamp_ns: int, timeout: float | None) -> int | Outcome:
        """
        Like publish(), for a mirror: with the sequence number and the time of the original. The number must not be lower than the next one.
        """

    def restart(self, sequence: int) -> bool:
        """
        Drops the history, and continues with this sequence number. Does nothing and returns False if the publisher has subscribers or is closed.
        """

    def begin_at(self, sequence: int) -> None:
        """
        For a mirror that has not begun: samples from this sequence number on count as missed.
        """

    def break_off(self) -> None:
        """
        Closes the publisher as if its process had died: streams of subscribers continue with the next publisher.
        """

    @property
    def number(self) -> int: ...

    @property
    def traced(self) -> bool: ...

    @property
    def subscribers(self) -> int: ...

    def wait_for_subscribers(self, count: int, timeout: float | None) -> Outcome: ...

    def ready(self) -> bool: ...

    def fileno(self) -> int: ...

    @property
    def stats(self) -> dict[str, int]: ...

    def close(self) -> None: ...

class Subscriber:
    def __init__(self, topic: str, participant: Participant, *, depth: int, max_held: int, reliable: bool, end_of_stream: bool, spin: float, access: Access, type: str = '', pin: bool = False, device: int = -2, publisher: str = '', node: str = '') -> None: ...

    def receive(self, timeout: float | None) -> Sample | Outcome:
        """Returns a Sample, or the Outcome if there is none."""

    def try_receive(self) -> Sample | Outcome: ...

    def receive_many(self, most: int, timeout: float | None) -> list[Sample] | Outcome:
        """Returns at least one Sample, or the Outcome if there is none."""

    def receive_into(self, array: object, timeout: float | None) -> int | Outcome:
        """Returns the number of rows written, at least one; or the Outcome."""

    def ready(self) -> bool: ...

    def fileno(self) -> int: ...

    def wait_for_publishers(self, count: int, timeout: float | None) -> Outcome: ...

    @property
    def stats(self) -> dict[str, Any]: ...

    def watch_publisher_ends(self) -> None:
        """
        From now on receive() and its like return INTERRUPTED when take_publisher_ends() has results.
        """

    def take_publisher_ends(self) -> list[tuple[str, int, bool]]:
        """
        Returns the publishers that have ended since the last call, after their last samples were received: name, pid, and whether it was closed in an orderly way.
        """

    def close(self) -> None: ...

def set_numpy_handler(api: object, participant: Participant, min_bytes: int) -> object:
    """
    Sets NumPy's memory handler of this context: it allocates arrays of at least `min_bytes` in memory of the bus. Returns the previous handler.
    """

def restore_numpy_handler(api: object, handler: object) -> None: ...

def born(dtype: str, shape: Sequence[int], participant: Participant) -> Memory: ...

def born_use() -> tuple[int, int, int, int]:
    """
    Returns the number of NumPy arrays that are in memory of the bus now, their bytes, how many arrays were allocated there, and how many were allocated elsewhere because the bus had no room.
    """

class Handle:
    """The name of a share."""

    @staticmethod
    def from_bytes(bytes: bytes) -> Handle: ...

    @staticmethod
    def parse(text: str) -> Handle: ...

    @property
    def owner(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def tensors(self) -> int: ...

    @property
    def described(self) -> list[tuple[str, list[int], list[int], int, int]]:
        """
        For each of the first tensors: dtype, shape, strides in elements, offset, flags.
        """

    def kept_by(self, keeper: str) -> Handle:
        """
        Returns the handle of the same share, kept by the participant with this id.
        """

    def bytes(self) -> bytes: ...

    def text(self) -> str: ...

class Shared:
    """Keeps shared tensors: any process with the handle may attach to them."""

    @property
    def handle(self) -> Handle: ...

    @property
    def open(self) -> bool: ...

    def close(self) -> None: ...

def share(outgoing: Outgoing, fields: bytes, uses: int, ttl: float | None, shared: bool, participant: Participant) -> Shared: ...

def share_once(outgoing: Outgoing, fields: bytes, shared: bool, carrier: int, keeper: str | None, participant: Participant) -> Handle:
    """
    Shares a message for one process: the share ends when that process has attached. `keeper` keeps it, too.
    """

def close_share(handle: Handle, participant: Participant) -> None: ...

def close_carried_by(carrier: int, participant: Participant) -> None:
    """
    Ends the shares of this process, and those it keeps, that were sent through `carrier`.
    """

def carriers(seconds: float, participant: Participant) -> list[int]:
    """
    Returns the carriers of shares that have been open for at least `seconds`: shares of this process, and those it keeps.
    """

def unkept(participant: Participant) -> list[int]:
    """
    Returns the carriers of shares that end with this process because their keeper does not read.
    """

def attach(handle: Handle, access: Access, timeout: float | None, participant: Participant) -> Sample | Outcome: ...

@overload
def is_shared(address: int, bytes: int, participant: Participant) -> bool:
    """
    Returns True if this memory belongs to the bus, so that other processes can be allowed to write to it.
    """

@overload
def is_shared(memory: Memory, participant: Participant) -> bool: ...

def empty(dtype: str, shape: Sequence[int], shared: bool, participant: Participant, device: int = -1) -> Memory: ...

def is_plain(item: object) -> bool:
    """Returns True for a plain value, which cannot contain a tensor."""

def plain_fields(item: object) -> bytes | None:
    """
    Returns the fields of the message of a plain value; None for any other value.
    """

def plain_pickle(fields: bytes) -> bytes | None:
    """
    Returns the pickle in these fields; None for other fields, and if the pickle refers to PyTorch.
    """

class Pending:
    """A pending request to a queue."""

    def fileno(self) -> int: ...

    def cancel(self) -> None:
        """Cancels the request. An item that has arrived returns to the queue."""

    def take(self) -> Sample | Outcome:
        """
        Returns the result: the Sample of a get, or the Outcome. TIMED_OUT without `answered`: there is no result yet, and the descriptor will be readable again.
        """

    def wait(self, timeout: float, other: Pending | None = None) -> bool:
        """
        Waits until take() of this request, or of `other`, may succeed. This thread serves the bus meanwhile. Returns False if it cannot do so now: poll fileno() instead.
        """

    @property
    def answered(self) -> bool:
        """
        True if a put or a call has its reply, or if take() has returned the reply to a get.
        """

    def request_cancel(self) -> None:
        """
        Asks the queue's server to cancel a put or a call; take() still returns its result.
        """

    @property
    def values(self) -> list[int]:
        """The four numbers in the reply to a call, after take()."""

    def accept(self) -> Outcome:
        """
        For a get with `hold`: accepts the item that take() has read. TIMED_OUT: not yet, and the descriptor will be readable again.
        """

    def spoil(self) -> None:
        """
        For a get with `hold`: refuses an item that no process can read. The item counts as lost.
        """

    @property
    def number(self) -> int:
        """
        The number of the item, for done() and give_back(); 0 without `redeliver`.
        """

class Queue:
    """A queue: carries items between any processes."""

    def __init__(self, *, maxsize: int, redeliver: bool, shared: bool, name: str, max_bytes: int, participant: Participant, origin: tuple[str, str] = ('', '')) -> None: ...

    @staticmethod
    def open(address_or_name: str, timeout: float | None, participant: Participant, ended: str = '') -> Queue:
        """
        `ended`: with a name, the address of an earlier queue that is not opened again.
        """

    @staticmethod
    def at(address: str, participant: Participant, maxsize: int = 0, redeliver: bool = False, shared: bool = False, max_bytes: int = 0) -> Queue:
        """
        Returns the queue with this address and these options. Sends no request to its process, which may be stopped or gone.
        """

    @staticmethod
    def addresses_of(name: str, participant: Participant) -> list[str]:
        """
        Returns the addresses of the queues with this name, for open(). Some queues may be gone.
        """

    @property
    def address(self) -> str: ...

    @property
    def maxsize(self) -> int: ...

    @property
    def max_bytes(self) -> int: ...

    @property
    def redeliver(self) -> bool: ...

    @property
    def made_here(self) -> bool: ...

    @property
    def shared(self) -> bool: ...

    def receive_with(self, access: Access) -> None:
        """
        Sets the access for items, if it differs from that of the queue. Call it before the first get.
        """

    def pin_later(self) -> None:
        """
        Pins the memory of later items for GPUs. The next get raises Unsupported if that is not possible. Call it after receive_with().
        """

    @staticmethod
    def require_pinning(access: Access) -> None:
        """
        Raises Unsupported if this process cannot pin memory for GPUs, and InvalidArgument if memory with this access is never pinned.
        """

    def put(self, outgoing: Outgoing, fields: bytes, timeout: float | None) -> Outcome: ...

    def get(self, timeout: float | None) -> Sample | Outcome: ...

    def put_now(self, outgoing: Outgoing, fields: bytes) -> bool:
        """
        Puts the message if that is possible without waiting. Otherwise returns False, and `outgoing` keeps it.
        """

    def get_while(self, unanswered: Pending, timeout: float | None) -> Sample | Outcome:
        """Like get(), but ends with CLOSED when `unanswered` has its reply."""

    def put_plain(self, item: object, timeout: float | None) -> Literal[True] | Outcome | None:
        """
        Puts a plain value. Returns True, or the Outcome if it was not put; None for any other value.
        """

    def get_item(self, timeout: float | None) -> tuple[Any] | Sample | tuple[Sample, BaseException] | Outcome:
        """
        Returns a tuple with the value of a plain item, the Sample of any other item, or the Outcome. If a signal handler raised during unpickling: a tuple of the Sample and the exception.
        """

    def put_many(self, fields: list[bytes], timeout: float | None) -> tuple[int, Outcome]:
        """
        Puts messages without tensors, in order. Returns the number of messages put, and DONE or the Outcome of the first message that was not put.
        """

    def get_many(self, max_count: int, timeout: float | None) -> tuple[list[Any], list[Sample], BaseException | None] | Outcome:
        """
        Returns the values of plain items up to the first other item, the Samples of that item and all later ones, and the exception if a signal handler raised meanwhile; or the Outcome.
        """

    def start_put(self, outgoing: Outgoing, fields: bytes, waits: bool = True) -> Pending: ...

    def start_get(self, hold: bool = False, waits: bool = True) -> Pending:
        """
        With `hold`, take() reads the offered item, and accept() or cancel() must follow.
        """

    def start_call(self, verb: str, number: int = 0) -> Pending:
        """
        Starts a call: state, join, shutdown, drain, close, done or give_back. "drain" with the number 1 also waits until the queue has been shut down.
        """

    def done(self, number: int) -> None:
        """
        Like task_done(), for the item with this number, which was held and accepted. Without `redeliver`, for `number` items (0: one).
        """

    def give_back(self, number: int) -> None:
        """
        Gives up items in hand as if this process had died: with `redeliver` the item with this number returns to the queue; otherwise `number` items (0: one) count as lost.
        """

    def start_join(self) -> Pending: ...

    def task_done(self) -> None: ...

    def join(self, timeout: float | None) -> Outcome: ...

    def shutdown(self, immediate: bool) -> tuple[int, int, bool]:
        """
        Returns the number of waiting items, the number of other processes that have requested items, and whether this process has.
        """

    def drain(self, timeout: float | None) -> Outcome: ...

    @property
    def stats(self) -> dict[str, int]: ...

    def close(self) -> None: ...

class MirrorQueue:
    """A mirror of a queue of another machine, its home."""

    def __init__(self, *, name: str, maxsize: int, redeliver: bool, max_bytes: int, origin: tuple[str, str], participant: Participant) -> None:
        """`origin`: the other machine, and the name of the queue on it."""

    @property
    def address(self) -> str: ...

    def fileno(self) -> int:
        """
        Returns a descriptor to poll: readable when there may be new events since take_events().
        """

    def take_events(self) -> list[tuple[Any, ...]]:
        """
        Returns the events in order: ("demand", gets), ("put", id, Sample, waits), ("call", id, verb, number), ("cancel", id), ("taken", tag), ("spoilt", tag), ("done", what), ("died", what), ("passed", items). `what` is the tag with `redeliver`, otherwise the number of items. The verb "poll" is a get that does not wait.
        """

    def offer(self, outgoing: Outgoing, fields: bytes, tag: int) -> None:
        """Adds an item for local gets. Tags must grow."""

    def withdraw(self, tag: int) -> bool:
        """
        Takes a waiting item back. Returns False if it was offered or taken, or is gone.
        """

    def surplus(self) -> list[int]:
        """
        Returns the tags of waiting items that no get waits for, the latest first.
        """

    def answer(self, id: int, outcome: Outcome, values: Sequence[int] = (0, 0, 0, 0)) -> None:
        """
        Answers a put or a call, once. If a poll gets an item, offer the item before the answer.
        """

    def deny(self, id: int, code: Code, text: str) -> None:
        """Answers a put or a call with an error."""

    def end_gets(self, died: int | None = None) -> None:
        """
        From now on local gets end with SHUT_DOWN when no item is left here; with `redeliver`, until the next "died". `died`: the number of "died" events that the home has received. Does nothing if there were more.
        """

    def close(self) -> None:
        """
        Closes the mirror: pending calls end with CLOSED, and the name is free.
        """

def ipc_handle_of(address: int, bytes: int) -> tuple[bytes, int, int, int]:
    """
    Returns the handle of the allocation that contains these bytes, the offset of the bytes in it, its size in bytes, and the ordinal of its GPU.
    """

def open_ipc(handle: bytes, offset: int, dtype: str, shape: Sequence[int], strides: Sequence[int] | None, device: int) -> Memory:
    """
    Opens memory by its handle. Strides are in elements, the offset is in bytes.
    """

class PublisherInfo:
    @property
    def topic(self) -> str: ...

    @property
    def node(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def fingerprint(self) -> int: ...

    @property
    def participant(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def publisher(self) -> str: ...

    @property
    def depth(self) -> int: ...

    @property
    def history(self) -> int: ...

    @property
    def reliable(self) -> bool: ...

    @property
    def machine(self) -> str: ...

    @property
    def origin(self) -> str: ...

class NodeInfo:
    @property
    def name(self) -> str: ...

    @property
    def participant(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def machine(self) -> str: ...

class QueueInfo:
    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def participant(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def machine(self) -> str: ...

    @property
    def origin(self) -> str: ...

class NodeName:
    """
    The name of a node in the domain. The node has it while this object lives.
    """

    def __init__(self, name: str, participant: Participant) -> None: ...

def list_publishers(participant: Participant) -> list[PublisherInfo]: ...

def list_nodes(participant: Participant) -> list[NodeInfo]: ...

def list_queues(participant: Participant) -> list[QueueInfo]:
    """Returns the named queues of living participants."""

def wait_for_topic(topic: str, timeout: float | None, participant: Participant) -> Outcome: ...

def wait_for_node(name: str, timeout: float | None, participant: Participant) -> Outcome: ...

def fingerprint_of(definition: str) -> int: ...

def why_not(expected: str, published: str) -> str:
    """
    Returns the reason why a reader that expects the definition `expected` cannot read messages of `published`; "" if it can.
    """

def inspect(domain: str, timeout: float) -> Any:
    """Returns an Inspection of tensorbus._inspection.report."""

def cuda_device_of(address: int) -> int:
    """
    Returns the ordinal of the GPU whose memory this is; -1 for any other address.
    """

class Finding:
    @property
    def why_not(self) -> str: ...

    @property
    def can(self) -> bool: ...

class HostFindings:
    @property
    def kernel(self) -> str: ...

    @property
    def kernel_version(self) -> Finding: ...

    @property
    def pidfd(self) -> Finding: ...

    @property
    def shared_memory(self) -> Finding: ...

    @property
    def huge_pages(self) -> Finding: ...

    @property
    def domain_path(self) -> str: ...

    @property
    def domain(self) -> Finding: ...

    @property
    def domain_exists(self) -> bool: ...

    @property
    def other_domains(self) -> list[str]: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def memory_limit(self) -> str: ...

    @property
    def open_files(self) -> int | None: ...

    @property
    def locked_bytes(self) -> int | None: ...

    @property
    def can_share(self) -> bool: ...

class DeviceFindings:
    @property
    def ordinal(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def uuid(self) -> str: ...

    @property
    def capability_major(self) -> int: ...

    @property
    def capability_minor(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def integrated(self) -> bool: ...

    @property
    def mig(self) -> bool: ...

    @property
    def context(self) -> Finding: ...

    @property
    def shared_memory(self) -> Finding: ...

    @property
    def read_only_mapping(self) -> Finding: ...

    @property
    def order(self) -> Finding: ...

    @property
    def stream_waits(self) -> Finding: ...

    @property
    def legacy_ipc(self) -> Finding: ...

    @property
    def pool_ipc(self) -> Finding: ...

    @property
    def can_share(self) -> bool: ...

class PeerFinding:
    @property
    def reader(self) -> int: ...

    @property
    def owner(self) -> int: ...

    @property
    def access(self) -> Finding: ...

class CudaFindings:
    @property
    def driver(self) -> Finding: ...

    @property
    def driver_version(self) -> int: ...

    @property
    def wsl(self) -> bool: ...

    @property
    def devices(self) -> list[DeviceFindings]: ...

    @property
    def peers(self) -> list[PeerFinding]: ...

def probe_host(domain: str) -> HostFindings: ...

def elsewhere_text(domain_path: str) -> str:
    """
    Returns a text that names other buses of this user, for the end of an error message; "" if there are none.
    """

def probe_cuda() -> CudaFindings: ...

class Tracer:
    """
    Traces the participants of a domain. No call waits for another process.
    """

    def __init__(self, domain: str, topics: Sequence[str]) -> None: ...

    def poll(self) -> None:
        """
        Asks new participants for a trace, takes their replies, and reads new records.
        """

    def sources(self) -> list[tuple[str, int, str, str, str, int, int]]:
        """
        Returns for each participant that was asked for a trace: its id, pid, program, state (asked, traced, refused, ended), the reason of a refusal, the number of records that were overwritten before they were read, and the number of incomplete records.
        """

    @property
    def topics(self) -> dict[str, str]:
        """The topics of observed publishers, by the name of the publisher."""

    def take(self, source: int) -> bytes:
        """Returns the records of a source since the last call."""

class Recorder:
    """Writes topics to a file."""

    def __init__(self, path: str, topics: Sequence[str], *, all: bool, pattern: str, reliable: bool, buffer_bytes: int, depth: int, overwrite: bool, split_bytes: int, split_seconds: float, snapshot_seconds: float, compress: str, compress_topics: Mapping[str, str], domain: str) -> None: ...

    def snapshot(self, timeout: float | None) -> str | Outcome:
        """Writes the kept messages to a file. Returns its path, or the Outcome."""

    def wait(self, timeout: float | None) -> Outcome:
        """Waits until an error has ended the recorder; then returns DONE."""

    @property
    def stats(self) -> dict[str, Any]: ...

    def close(self) -> None: ...

class Recording:
    """A mapped file that a Recorder has written."""

    def __init__(self, path: str) -> None: ...

    def __len__(self) -> int: ...

    @property
    def about(self) -> dict[str, str]:
        """Metadata from the recorder."""

    @property
    def topics(self) -> list[tuple[str, list[str], int, int, int, int, int]]:
        """
        For each topic: its name, the definitions of its types, the numbers of publishers, messages and lost messages, and the times of its first and last message.
        """

    @property
    def recovered(self) -> str: ...

    @property
    def damage(self) -> str: ...

    @property
    def file_bytes(self) -> int: ...

    def select(self, topics: Sequence[str], begin: int, end: int) -> bytes:
        """
        Returns the indices of the messages on these topics (none: all) recorded from `begin` to before `end`, as an array of unsigned 32-bit numbers.
        """

    def time(self, index: int) -> int:
        """Returns the time of recording, in ns since the Unix epoch."""

    def sample(self, index: int) -> Sample: ...

    def check(self) -> None: ...

def copy_recordings(parts: Sequence[tuple[Recording, Sequence[str], int, int]], path: str, overwrite: bool, compress: str | None, compress_topics: Mapping[str, str]) -> dict[str, Any]:
    """
    Writes messages of several recordings to a new one. `parts`: for each recording its topics (none: all), and two times: messages from the first to before the second are taken. `compress`: None keeps the compression of each message.
    """

class Player:
    """Publishes a recording."""

    def __init__(self, recording: Recording, *, topics: Sequence[str], remap: Mapping[str, str], rate: float, loop: bool, paused: bool, begin: int, end: int, clock: str, device: int, domain: str) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def step(self, count: int) -> None: ...

    def set_rate(self, rate: float) -> None: ...

    def wait(self, timeout: float | None) -> Outcome:
        """
        Waits until all messages were published, or playing has failed; then returns DONE.
        """

    def wait_for_subscribers(self, timeout: float | None) -> Outcome:
        """Waits until each topic has a subscriber; then returns DONE."""

    @property
    def stats(self) -> dict[str, Any]: ...

    def close(self) -> None: ...
