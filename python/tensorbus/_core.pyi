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

def know_errors(by_code: tuple[type[Exception], ...]) -> None:
    """Tells the exception of each Code."""

def raise_system_error(what: str, error_number: int) -> None:
    """
    Raises the error of a system call of ours, which names the limit that it met.
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
    Memory of the bus: a received tensor, a loan, or a stretch of a file. Offers the buffer protocol and DLPack; strides are in elements.
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
        """A DLPack capsule; whoever takes it keeps the memory."""

    def bits(self) -> Memory:
        """
        The same memory, as unsigned integers where DLPack had no name for the elements.
        """

    def packed(self) -> Memory:
        """
        A copy that may be written to, without negative strides; what is repeated stays so.
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

    @property
    def device(self) -> str:
        """"cpu", or "cuda:0" and so on."""

    @property
    def published_on(self) -> str:
        """
        Where its publisher had it: another device if this process cannot use that one.
        """

    def __repr__(self) -> str: ...

class FileMode(enum.Enum):
    """What writing to a mapped file does."""

    READ = 0

    READ_WRITE = 1

    COPY_ON_WRITE = 2

class MappedFile:
    """A stretch of a file in memory."""

    def __init__(self, fd: int, path: str, offset: int, bytes: int, mode: FileMode) -> None: ...

    @property
    def mode(self) -> FileMode: ...

    def memory(self, dtype: str, shape: Sequence[int], offset: int) -> Memory:
        """A contiguous tensor, `offset` bytes after the first that is mapped."""

    def check(self) -> None: ...

    def flush(self) -> None: ...

def safetensors(fd: int, path: str) -> tuple[int, int, dict[str, tuple[str, str | None, int, list[int], int]], dict[str, str]]:
    """What the header of a .safetensors file says."""

def flush_at(address: int) -> None:
    """Flushes the file that this address is mapped from."""

def is_in_file(address: int) -> bool:
    """Is this address mapped from a file, by map_file()?"""

def allocate_file(fd: int, path: str, bytes: int) -> None:
    """Makes a file of exactly so many bytes, with all its blocks."""

def plain_torch(memory: Memory) -> Any:
    """The plain tensor over this memory; None if it is to be an unusual one."""

def know_torch(tensor: type, dtypes: dict[Any, str]) -> None:
    """Tells the class of plain tensors, and the names of their dtypes."""

def private_copy(address: int, dtype: str, shape: Sequence[int], strides: Sequence[int]) -> Memory:
    """
    The elements, row-major, in memory of this process alone. Strides are in elements.
    """

def check_coordinates(indices: Memory, sizes: Sequence[int], count: int, coalesced: bool) -> None: ...

def check_compressed(begins: Memory, columns: Memory, batches: int, size: int) -> None: ...

def check_jagged(offsets: Memory, lengths: Memory | None, rows: int) -> None: ...

def check_nested(sizes: Memory, strides: Memory, offsets: Memory, elements: int) -> None: ...

class Outgoing:
    """
    The tensors of a message that is about to be published. Each method returns the index of the tensor that it added.
    """

    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    def add(self, value: object) -> int:
        """
        A torch.Tensor or numpy.ndarray of which there is no more to say than where it lies; -1 for anything else.
        """

    def add_buffer(self, value: object, flags: int) -> int:
        """
        What offers the buffer protocol in elements that have a dtype; -1 for anything else.
        """

    def add_received(self, memory: Memory) -> int:
        """As it is."""

    def add_capsule(self, capsule: CapsuleType, flags: int) -> int: ...

    def add_memory(self, address: int, dtype: str, shape: Sequence[int], strides: Sequence[int], flags: int, keeper: object, device: int = -1, stream: int = 0) -> int:
        """
        Strides are in elements. `keeper` lives until the memory was copied, or, on a GPU, as long as somebody reads it. `device`: the ordinal of a GPU, and the stream that writes it there; -1 is main memory.
        """

    def add_at(self, loan: memoryview, dtype: str, shape: Sequence[int], strides: Sequence[int], flags: int, offset: int) -> int:
        """
        A tensor in a loan of bytes; strides in elements, `offset` of the first element in bytes. InvalidArgument if it reaches outside.
        """

    def set_stream(self, stream: int) -> None:
        """On which all that lies on GPUs is written."""

def know_numpy(array: type, api: object, dtypes: list[Any]) -> None:
    """
    Tells the class of plain arrays, the capsule of NumPy's functions, and its dtypes that have a name here.
    """

def know_codec(*, lower: Any, cannot_travel: Any, blamed: Any, refused: Any, restorer: Any, restore: Any, extension: Any, tensor_from: Any, shared_tensors: Any) -> None:
    """Tells the functions to which messages leave what is rare."""

class MessagePlan:
    """What is known of a message class."""

    def __init__(self, plan: object, cls: type, fields: list[tuple[str, set[type] | None, Any, Any, bool, bool]]) -> None:
        """
        `fields`: of each the name, the classes that need no conversion (None: all), what lowers and what restores a value of another one, whether it is required, and whether __init__ takes it.
        """

def pack_message(outgoing: Any, message: object) -> bytes:
    """
    The fields of a message whose tensors are added to `outgoing`, an Outgoing or an object with its methods. They are empty if the message is nothing but one tensor.
    """

def pack_value(outgoing: Any, value: object) -> bytes:
    """
    The MessagePack of one value in a message, whose tensors are added to `outgoing`.
    """

def unpack(fields: bytes, restorer: Any, plan: MessagePlan | None = None) -> Any:
    """The message of these fields; `restorer` has its tensors."""

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
    def origin(self) -> tuple[str, str] | None:
        """
        Of a mirror's sample: the machine, and the name there of its publisher.
        """

    def ranges(self) -> tuple[list[memoryview], int, list[tuple[str, tuple[int, ...], tuple[int, ...], int, int]]]:
        """
        The tensors as one run of bytes: its parts, each of which begins at the next multiple of 64; the bytes of the run; and of each tensor dtype, shape, strides in elements, flags, and the offset of its first element in the run.
        """

    @property
    def published_on(self) -> tuple[str, ...]: ...

    @property
    def fields(self) -> bytes: ...

    @property
    def tensor_count(self) -> int: ...

    def tensors(self, as_: str | None) -> list[Any]:
        """
        Each a torch.Tensor, if that is wanted (None: if it was one) and nothing about it is unusual; else its Memory.
        """

    def message(self, library: str | None, plan: MessagePlan | None) -> Any:
        """
        What was published, with its tensors; of a message type, an instance of its class.
        """

    def shared_storages(self, as_: str | None) -> list[tuple[Memory, list[tuple[int, int]]]]:
        """
        Memory in which several torch tensors overlap, with the index of each and its offset there in bytes.
        """

    def memory(self, index: int) -> Memory: ...

    def own_memories(self) -> list[Memory]:
        """
        Of all tensors, to be written to: no other process, and nothing else that this one has received, shows these writes.
        """

    def use_on(self, stream: int, of: int = -1) -> None: ...

    @property
    def intact(self) -> bool: ...

    @property
    def traced(self) -> bool:
        """Whether a tracer was there when it was received."""

    def copy(self) -> Sample: ...

class Outcome(enum.Enum):
    """What became of a call that may wait."""

    DONE = 0

    TIMED_OUT = 1

    INTERRUPTED = 2

    CLOSED = 3

    HOLD_LIMIT = 4

    SHUT_DOWN = 5

class Access(enum.Enum):
    """What a subscriber may do with what it receives."""

    COPY_ON_WRITE = 0

    READ = 1

    PRIVATE = 2

    SHARED = 3

class Participant:
    """This process on one domain."""

    @staticmethod
    def shared(domain: str = '', budget_bytes: int = 0) -> Participant: ...

    @property
    def id(self) -> str: ...

    def __repr__(self) -> str: ...

    @property
    def domain(self) -> str: ...

    @property
    def domain_changes(self) -> int:
        """Grows when files of the domain may have come or gone."""

    def domain_fileno(self) -> int:
        """
        To poll: readable when domain_changes may have grown since it was cleared.
        """

    def clear_domain_fileno(self) -> None: ...

    def subscribers_fileno(self) -> int:
        """
        To poll: readable when publishers of this participant have gained or lost subscribers since take_changed_publishers().
        """

    def take_changed_publishers(self) -> list[int]:
        """The numbers of these publishers."""

    @property
    def arena(self) -> dict[str, int]: ...

class Publisher:
    def __init__(self, topic: str, participant: Participant, *, depth: int, history: int, reliable: bool, lag_timeout: float | None, shared: bool, isolated: bool = False, type: str = '', node: str = '', origin: tuple[str, str] = ('', '')) -> None: ...

    def loan(self, dtype: str, shape: Sequence[int], device: int = -1, timeout: float | None = None) -> Memory: ...

    def loan_plain(self, dtype: object, shape: object) -> Any:
        """
        A plain tensor of PyTorch or array of NumPy, if that is what this dtype and this shape, a tuple or a list of ints, ask for; else None.
        """

    def publish(self, outgoing: Outgoing, fields: bytes, timeout: float | None) -> int | Outcome:
        """How many subscribers have it, if it was published."""

    def publish_any(self, data: object, timeout: float | None, stream: int | None = None, plan: MessagePlan | None = None) -> int | Outcome:
        """
        The same of a message; `stream`: on which all that lies on GPUs is written.
        """

    def publish_many(self, rows: object, timeout: float | None) -> tuple[Outcome, int] | None:
        """
        How many rows of a plain array were published, each as a message; None for any other object.
        """

    def loan_bytes(self, bytes: int, timeout: float | None) -> memoryview:
        """Memory to fill; Outgoing.add_at() takes tensors in it."""

    def publish_as(self, outgoing: Outgoing, fields: bytes, fingerprint: int, sequence: int, timestamp_ns: int, timeout: float | None) -> int | Outcome:
        """
        publish() of a mirror: with the number, at or beyond the next one, and the time of the original.
        """

    def restart(self, sequence: int) -> bool:
        """
        Forgets the history, and goes on with this number. False, and nothing, if it has subscribers or is closed.
        """

    def begin_at(self, sequence: int) -> None:
        """
        Of a mirror that has not begun: the samples from this number on count as missed.
        """

    def break_off(self) -> None:
        """
        close() as if its process had died: streams go on with the next publisher.
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
        """A Sample, or the Outcome that says why there is none."""

    def try_receive(self) -> Sample | Outcome: ...

    def receive_many(self, most: int, timeout: float | None) -> list[Sample] | Outcome:
        """At least one, or the Outcome that says why there is none."""

    def receive_into(self, array: object, timeout: float | None) -> int | Outcome:
        """How many rows of the array are new: one at least."""

    def ready(self) -> bool: ...

    def fileno(self) -> int: ...

    def wait_for_publishers(self, count: int, timeout: float | None) -> Outcome: ...

    @property
    def stats(self) -> dict[str, Any]: ...

    def close(self) -> None: ...

def set_numpy_handler(api: object, participant: Participant, min_bytes: int) -> object:
    """
    NumPy's arrays of so many bytes are born on the bus, in this context. Returns the handler before.
    """

def restore_numpy_handler(api: object, handler: object) -> None: ...

def born(dtype: str, shape: Sequence[int], participant: Participant) -> Memory: ...

def born_use() -> tuple[int, int, int, int]:
    """
    Arrays of NumPy that are in such memory now, their bytes; how often memory was born, and how often there was no room.
    """

class Handle:
    """The name of what somebody shares."""

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
        Of the first tensors: dtype, shape, strides in elements, offset, flags.
        """

    def kept_by(self, keeper: str) -> Handle:
        """The same share, where the participant with this id keeps it."""

    def bytes(self) -> bytes: ...

    def text(self) -> str: ...

class Shared:
    """Keeps tensors for whoever has the handle."""

    @property
    def handle(self) -> Handle: ...

    @property
    def open(self) -> bool: ...

    def close(self) -> None: ...

def share(outgoing: Outgoing, fields: bytes, uses: int, ttl: float | None, shared: bool, participant: Participant) -> Shared: ...

def share_once(outgoing: Outgoing, fields: bytes, shared: bool, carrier: int, keeper: str | None, participant: Participant) -> Handle:
    """
    Shares a message for one process, until it has attached; `keeper` keeps it, too.
    """

def close_share(handle: Handle, participant: Participant) -> None: ...

def close_carried_by(carrier: int, participant: Participant) -> None:
    """Ends what this process shares, or keeps, that was sent through this."""

def carriers(seconds: float, participant: Participant) -> list[int]:
    """
    What the shares of this process, and those that it keeps, went through, if they are open for so long.
    """

def unkept(participant: Participant) -> list[int]:
    """
    What the shares went through that end with this process, since their keeper does not read.
    """

def attach(handle: Handle, access: Access, timeout: float | None, participant: Participant) -> Sample | Outcome: ...

@overload
def is_shared(address: int, bytes: int, participant: Participant) -> bool:
    """
    Does this memory belong to the bus, so that others may be let write to it?
    """

@overload
def is_shared(memory: Memory, participant: Participant) -> bool: ...

def empty(dtype: str, shape: Sequence[int], shared: bool, participant: Participant, device: int = -1) -> Memory: ...

def is_plain(item: object) -> bool:
    """Is that an everyday value, in which no tensor can be?"""

def plain_fields(item: object) -> bytes | None:
    """The fields of the message of an everyday value; None for others."""

def plain_pickle(fields: bytes) -> bytes | None:
    """
    The pickle in such fields; None for others, and for one that names something of PyTorch's.
    """

class Pending:
    """A request of a queue that is under way."""

    def fileno(self) -> int: ...

    def cancel(self) -> None:
        """Gives it up; an item that has come goes back."""

    def take(self) -> Sample | Outcome:
        """
        What became of it: the Sample of a get, else the Outcome; TIMED_OUT without `answered`: not yet, the descriptor will be readable again.
        """

    def wait(self, timeout: float, other: Pending | None = None) -> bool:
        """
        Waits until take() may succeed, or that of `other`, and serves the bus meanwhile in this thread. False if that cannot be done now: fileno() tells.
        """

    @property
    def answered(self) -> bool:
        """Whether a put or a call has its answer, or take() had that of a get."""

    def request_cancel(self) -> None:
        """Has the host give up a put or a call; take() still has its answer."""

    @property
    def values(self) -> list[int]:
        """The four numbers in the answer to a call, after take()."""

    def accept(self) -> Outcome:
        """
        Accepts the item that take() has read, of a get with `hold`; TIMED_OUT: not yet, the descriptor will be readable again.
        """

    def spoil(self) -> None:
        """Refuses that item for good, which counts as lost: nobody can read it."""

    @property
    def number(self) -> int:
        """Of that item, for done() and give_back(); 0 without `redeliver`."""

class Queue:
    """Items from any process to any other."""

    def __init__(self, *, maxsize: int, redeliver: bool, shared: bool, name: str, max_bytes: int, participant: Participant, origin: tuple[str, str] = ('', '')) -> None: ...

    @staticmethod
    def open(address_or_name: str, timeout: float | None, participant: Participant) -> Queue: ...

    @staticmethod
    def at(address: str, participant: Participant, maxsize: int = 0, redeliver: bool = False, shared: bool = False, max_bytes: int = 0) -> Queue:
        """
        One that was made so, without asking its process, which may be stopped or gone.
        """

    @staticmethod
    def addresses_of(name: str, participant: Participant) -> list[str]:
        """
        Addresses that `open` takes, of the queues of this name; some may be gone.
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
        """How it gets items, if not as the queue was made. Before the first get."""

    def put(self, outgoing: Outgoing, fields: bytes, timeout: float | None) -> Outcome: ...

    def get(self, timeout: float | None) -> Sample | Outcome: ...

    def put_now(self, outgoing: Outgoing, fields: bytes) -> bool:
        """
        Puts the message if that takes no waiting. False if it did not, and `outgoing` keeps it.
        """

    def get_while(self, unanswered: Pending, timeout: float | None) -> Sample | Outcome:
        """get() that also ends, with CLOSED, when `unanswered` has its answer."""

    def put_plain(self, item: object, timeout: float | None) -> Literal[True] | Outcome | None:
        """
        Puts an everyday value, and returns True or why not; None for other values.
        """

    def get_item(self, timeout: float | None) -> tuple[Any] | Sample | tuple[Sample, BaseException] | Outcome:
        """
        The value of an everyday item in a tuple, or the Sample of another one; with what was raised, if a signal handler did so while it was unpickled.
        """

    def put_many(self, fields: list[bytes], timeout: float | None) -> tuple[int, Outcome]:
        """
        Puts messages of fields alone, in order; how many are in the queue, and what kept the next one out.
        """

    def get_many(self, max_count: int, timeout: float | None) -> tuple[list[Any], list[Sample], BaseException | None] | Outcome:
        """
        The values of everyday items, up to the first other one, and the Samples from that one on; and what was raised, if a signal handler did so meanwhile.
        """

    def start_put(self, outgoing: Outgoing, fields: bytes, waits: bool = True) -> Pending: ...

    def start_get(self, hold: bool = False, waits: bool = True) -> Pending:
        """
        With `hold`, take() reads the offered item; accept() or cancel() follows.
        """

    def start_call(self, verb: str, number: int = 0) -> Pending:
        """state, join, shutdown, drain, close, done or give_back."""

    def done(self, number: int) -> None:
        """
        task_done() of an item that was held and accepted; without `redeliver` of so many (0: one).
        """

    def give_back(self, number: int) -> None:
        """The same as if this process had died with it in its hand."""

    def start_join(self) -> Pending: ...

    def task_done(self) -> None: ...

    def join(self, timeout: float | None) -> Outcome: ...

    def shutdown(self, immediate: bool) -> tuple[int, int, bool]:
        """
        The items that wait, how many other processes have asked for items, and if this one has.
        """

    def drain(self, timeout: float | None) -> Outcome: ...

    @property
    def stats(self) -> dict[str, int]: ...

    def close(self) -> None: ...

class MirrorQueue:
    """A queue that stands for one of another machine, its home."""

    def __init__(self, *, name: str, maxsize: int, redeliver: bool, max_bytes: int, origin: tuple[str, str], participant: Participant) -> None:
        """`origin`: the machine, and the name of the queue there."""

    @property
    def address(self) -> str: ...

    def fileno(self) -> int:
        """To poll: readable when there may be events since take_events()."""

    def take_events(self) -> list[tuple[Any, ...]]:
        """
        What has happened, in order: ("demand", gets), ("put", id, Sample, waits), ("call", id, verb, number), ("cancel", id), ("taken", tag), ("spoilt", tag), ("done", what), ("died", what), ("passed", items). `what` is the tag with `redeliver`, without it how many items. The verb "poll" is a get that does not wait.
        """

    def offer(self, outgoing: Outgoing, fields: bytes, tag: int) -> None:
        """Adds an item for local gets. Tags grow."""

    def withdraw(self, tag: int) -> bool:
        """
        Takes an item back that waits; False if it was offered or taken, or is gone.
        """

    def surplus(self) -> list[int]:
        """The tags of the items that wait for no get, the latest first."""

    def answer(self, id: int, outcome: Outcome, values: Sequence[int] = (0, 0, 0, 0)) -> None:
        """
        Answers a put or a call, once; a poll after its item was offered, if there was one.
        """

    def deny(self, id: int, code: Code, text: str) -> None:
        """Answers a put or a call with an error."""

    def end_gets(self, died: int | None = None) -> None:
        """
        Local gets end with SHUT_DOWN when nothing is left here; until the next "died" with `redeliver`. `died`: how many of those the home had heard; if not all, nothing happens.
        """

    def close(self) -> None:
        """All who wait get CLOSED, and the name is free."""

def ipc_handle_of(address: int, bytes: int) -> tuple[bytes, int, int, int]:
    """
    The handle of the allocation that holds these bytes, their offset there, its size, and the ordinal of its GPU.
    """

def open_ipc(handle: bytes, offset: int, dtype: str, shape: Sequence[int], strides: Sequence[int] | None, device: int) -> Memory:
    """Strides are in elements, the offset is in bytes."""

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
    """A node's name in the domain, for as long as it lives."""

    def __init__(self, name: str, participant: Participant) -> None: ...

def list_publishers(participant: Participant) -> list[PublisherInfo]: ...

def list_nodes(participant: Participant) -> list[NodeInfo]: ...

def list_queues(participant: Participant) -> list[QueueInfo]:
    """The queues that have names, of living participants."""

def wait_for_topic(topic: str, timeout: float | None, participant: Participant) -> Outcome: ...

def wait_for_node(name: str, timeout: float | None, participant: Participant) -> Outcome: ...

def fingerprint_of(definition: str) -> int: ...

def why_not(expected: str, published: str) -> str:
    """
    Why who expects the one definition cannot read messages of the other; empty if it can.
    """

def inspect(domain: str, timeout: float) -> Any:
    """An Inspection of tensorbus._inspection.report."""

def cuda_device_of(address: int) -> int:
    """The ordinal of the GPU whose memory this is; -1 for any other address."""

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
    Names other buses of this user, as the end of a message; empty if there are none.
    """

def probe_cuda() -> CudaFindings: ...

class Tracer:
    """
    Traces the participants of a domain. No call waits for another process.
    """

    def __init__(self, domain: str, topics: Sequence[str]) -> None: ...

    def poll(self) -> None:
        """Asks new participants, hears answers, and reads what was written."""

    def sources(self) -> list[tuple[str, int, str, str, str, int, int]]:
        """
        Of each participant that was asked: its id, pid, program, state (asked, traced, refused, ended), why it refused, records that were overwritten before they were read, and records that were not completed.
        """

    @property
    def topics(self) -> dict[str, str]:
        """The topics of the publishers that were seen, by the publisher's name."""

    def take(self, source: int) -> bytes:
        """The records of a source since the last call."""

class Recorder:
    """Writes topics to a file."""

    def __init__(self, path: str, topics: Sequence[str], *, all: bool, pattern: str, reliable: bool, buffer_bytes: int, depth: int, overwrite: bool, split_bytes: int, split_seconds: float, snapshot_seconds: float, compress: str, compress_topics: Mapping[str, str], domain: str) -> None: ...

    def snapshot(self, timeout: float | None) -> str | Outcome:
        """The path of the file to which what was kept was written."""

    def wait(self, timeout: float | None) -> Outcome:
        """DONE when it has ended by an error."""

    @property
    def stats(self) -> dict[str, Any]: ...

    def close(self) -> None: ...

class Recording:
    """A file that a Recorder has written, mapped."""

    def __init__(self, path: str) -> None: ...

    def __len__(self) -> int: ...

    @property
    def about(self) -> dict[str, str]:
        """What the recorder says of itself."""

    @property
    def topics(self) -> list[tuple[str, list[str], int, int, int, int, int]]:
        """
        Of each topic: name, definitions of its types, publishers, messages, lost, the times of its first and last message.
        """

    @property
    def recovered(self) -> str: ...

    @property
    def damage(self) -> str: ...

    @property
    def file_bytes(self) -> int: ...

    def select(self, topics: Sequence[str], begin: int, end: int) -> bytes:
        """
        The numbers of the messages on these topics (none: all), recorded from `begin` to before `end`: an array of unsigned 32-bit numbers.
        """

    def time(self, index: int) -> int:
        """When the message was recorded, ns since 1970."""

    def sample(self, index: int) -> Sample: ...

    def check(self) -> None: ...

def copy_recordings(parts: Sequence[tuple[Recording, Sequence[str], int, int]], path: str, overwrite: bool, compress: str | None, compress_topics: Mapping[str, str]) -> dict[str, Any]:
    """
    Writes messages of several recordings to a new one. Of each recording: topics (none: all), and the times from and before which its messages were recorded. `compress`: None: what was compressed is compressed in the same way.
    """

class Player:
    """Publishes a recording."""

    def __init__(self, recording: Recording, *, topics: Sequence[str], remap: Mapping[str, str], rate: float, loop: bool, paused: bool, begin: int, end: int, clock: str, device: int, domain: str) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def step(self, count: int) -> None: ...

    def set_rate(self, rate: float) -> None: ...

    def wait(self, timeout: float | None) -> Outcome:
        """DONE when all was published, or playing has failed."""

    def wait_for_subscribers(self, timeout: float | None) -> Outcome:
        """DONE when each topic has a subscriber."""

    @property
    def stats(self) -> dict[str, Any]: ...

    def close(self) -> None: ...
