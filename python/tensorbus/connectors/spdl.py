"""Connects SPDL (https://facebookresearch.github.io/spdl) with the bus.

SPDL accepts any object with the methods of its `ArenaProtocol`, so this module does not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorbus._queues.queue import Queue

if TYPE_CHECKING:
    import numpy as np

    Binaries = list[np.ndarray[Any, Any]]


class Arena:
    """Carries the items of an SPDL pipeline in another process by reference.

    Pass it as `arena=` to `spdl.pipeline.run_pipeline_in_subprocess` or `iterate_in_subprocess`,
    which closes it. An arena belongs to one call.

    Each large array, tensor or bytes object of an item is copied once, in the worker; arrays in
    memory of the bus (`tensorbus.empty`, `tensorbus.allocate`) are not copied. Received arrays and
    tensors stay valid and unchanged for as long as they are held, and may be written to. Any number
    of items can be held, of any size: there is no capacity to choose. Bytes arrive as a memoryview,
    as from SPDL's own `SharedMemorySegmentPool`. The size of the pipeline's buffer limits how many
    items wait.

    Args:
        domain: see `tensorbus.participant`.

    >>> import numpy as np
    >>> arena = Arena()
    >>> writer, reader = arena.open_writer(), arena.open_reader()  # SPDL calls all of these
    >>> writer.begin_unit()
    >>> place = writer.write_binary(np.arange(3, dtype="uint8"))
    >>> span = writer.commit_unit()
    >>> view = reader.read_binary(*place)
    >>> reader.end_unit(span, [])
    >>> arena.close()
    >>> arena.unlink()
    >>> view.tolist()
    [0, 1, 2]
    """

    def __init__(self, *, domain: str | None = None) -> None:
        self._units: Queue[Binaries] = Queue(domain=domain)

    def open_writer(self) -> ArenaWriter:
        """The end for the worker."""
        return ArenaWriter(self._units)

    def open_reader(self) -> ArenaReader:
        """The end for the process that made the arena."""
        return ArenaReader(self._units)

    def close(self) -> None:
        """Drops the items that wait. Received items stay valid."""
        self._units.shutdown(immediate=True)
        self._units.close()

    def unlink(self) -> None:
        """Does nothing: nothing of the bus has a name that could leak."""


class ArenaWriter:
    """Sends the binaries of each item, which SPDL calls a unit, as one item of a queue."""

    def __init__(self, units: Queue[Binaries]) -> None:
        self._units = units
        self._unit: Binaries = []

    def reset(self) -> None:
        """Forgets an unfinished unit."""
        self._unit = []

    def begin_unit(self) -> None:
        """Begins a unit without binaries."""
        self.reset()

    def abort_unit(self) -> None:
        """Forgets the unfinished unit."""
        self.reset()

    def write_binary(self, data: Any) -> tuple[int, int]:
        """Adds a flat buffer to the unit; returns its index in it, and its size in bytes."""
        import numpy as np

        binary = np.frombuffer(data, np.uint8)
        self._unit.append(binary)
        return len(self._unit) - 1, binary.nbytes

    def commit_unit(self) -> int:
        """Sends the unit. Returns the number of its binaries."""
        unit, self._unit = self._unit, []
        if unit:
            self._units.put(unit)
        return len(unit)


class ArenaReader:
    """Gets the binaries of each unit, in the order in which the units were sent."""

    zero_copy: bool = True

    def __init__(self, units: Queue[Binaries]) -> None:
        self._units = units
        self._unit: Binaries = []

    def reset(self) -> None:
        """Releases the current unit; views of it stay valid."""
        self._unit = []

    def read_binary(self, offset: int, nbytes: int) -> memoryview:
        """The binary with this index in the current unit. The view keeps the memory."""
        if not self._unit:
            self._unit = self._units.get_nowait()
        return memoryview(self._unit[offset])  # type: ignore[arg-type]

    def end_unit(self, span: int, pinned: list[object]) -> None:
        """Ends the unit; a unit of `span` binaries of which none was read is dropped."""
        if span and not self._unit:
            self._units.get_nowait()
        self._unit = []
