"""Tensors over files, by the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Any, Literal

from tensorbus import _core
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, InvalidArgument
from tensorbus._base.public import public
from tensorbus._core import FileMode
from tensorbus._files.contents import Library, tensor_at
from tensorbus._files.formats import check_arguments, contents_in, end_of, planned
from tensorbus._tensors.library import library_of

Mode = Literal["r", "r+", "c", "w+"]
_MODES = {
    "r": FileMode.READ,
    "r+": FileMode.READ_WRITE,
    "c": FileMode.COPY_ON_WRITE,
    "w+": FileMode.READ_WRITE,
}


@public
class MappedFile(Closing):
    """A file whose tensors lie in memory, page by page as they are touched.

    A `.safetensors` file has all of its tensors. They live on by themselves: `close()`, or the end
    of a `with`, only lets go of the file.

    Args:
        path, shape, dtype, mode, offset, library: as for `tensorbus.map_file`.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "counts.bin")
    >>> with MappedFile(path, (2, 3), "int32", "w+") as file:
    ...     file.data[:] = 7
    ...     file.flush()
    >>> MappedFile(path, dtype="int32").data.tolist()
    [7, 7, 7, 7, 7, 7]
    """

    _in_a_child = "map the file in the child, or send its tensors"

    def __init__(
        self,
        path: str | os.PathLike[str],
        shape: Any = None,
        dtype: Any = None,
        mode: Mode = "r",
        *,
        offset: int = 0,
        library: Library | None = None,
    ) -> None:
        if mode not in _MODES:
            raise InvalidArgument(f"mode={mode!r}: expected one of {', '.join(map(repr, _MODES))}")
        if library not in (None, "torch", "numpy"):
            raise InvalidArgument(f'library={library!r}: expected "torch", "numpy" or None')
        self._path = os.fsdecode(path)
        self._mode: Mode = mode
        shown = self._path.encode(errors="replace").decode()
        offset = _checked_offset(offset)
        check_arguments(shown, shape, dtype, mode, offset)
        header = b""
        if mode == "w+":  # nothing is touched before all else is known to be right
            contents, header = planned(shown, shape, dtype, offset, library)
        with _opened(self._path, mode) as fd:
            if mode == "w+":
                _core.allocate_file(fd, shown, end_of(contents, shown))
                os.pwrite(fd, header, 0)
            else:
                contents = contents_in(fd, shown, shape, dtype, offset, library)
                end_of(contents, shown)
            self._core: _core.MappedFile | None = _core.MappedFile(
                fd, shown, contents.start, contents.bytes, _MODES[mode]
            )
        self._contents = contents
        self._data: Any = None

    @property
    def path(self) -> str:
        """The file's path, as it was given."""
        return self._path

    @property
    def mode(self) -> Mode:
        """What a write does: see `map_file`."""
        return self._mode

    @property
    def names(self) -> list[str]:
        """The names of the tensors of a `.safetensors` file; none for other files."""
        return [] if self._contents.metadata is None else list(self._contents.places)

    @property
    def metadata(self) -> dict[str, str]:
        """What a `.safetensors` file says beside its tensors (`__metadata__`)."""
        return dict(self._contents.metadata or {})

    @property
    def data(self) -> Any:
        """The tensor; of a `.safetensors` file a dict of all its tensors by name."""
        if self._data is None:
            if self._contents.metadata is None:
                self._data = self.tensor()
            else:
                self._data = {name: self.tensor(name) for name in self._contents.places}
        return self._data

    def tensor(self, name: str | None = None) -> Any:
        """One tensor: by its name in a `.safetensors` file, without one of any other.

        Raises:
            InvalidArgument: there is none of this name.
            Unsupported: there are no such tensors in the library that was asked for.
        """
        core = self._open()
        place = self._contents.places.get("" if name is None else name)
        named = self._contents.metadata is not None
        if place is None or named != (name is not None):
            known = ", ".join(map(repr, self.names[:20])) if named else "it has one tensor"
            raise InvalidArgument(f"file {self._path!r}: name={name!r}: there is none; {known}")
        return tensor_at(core, self._contents, place, self._path)

    def check(self) -> None:
        """Raises if the memory is not what is in the file.

        Call it after you have read, and trust what you read only then. What it can tell, and
        what not: docs/files.md.

        Raises:
            SystemCallError: the file was cut short, or a page could not be read or written; or,
                unless writes reach it (`"r+"`, `"w+"`), somebody wrote to it since it was mapped.
        """
        self._open().check()

    def flush(self) -> None:
        """Waits until what was written is on the disk. Others see it before that, at once.

        Raises:
            InvalidArgument: the mode is not `"r+"` or `"w+"`.
            SystemCallError: it could not be written, or as for `check`.
        """
        self._open().flush()

    def close(self) -> None:
        """Lets go of the file. Its tensors stay, and the memory until the last of them is gone.

        Nothing is lost that was not flushed: the kernel writes it, in its own time.
        """
        self._core = self._data = None

    def __repr__(self) -> str:
        state = "" if self._core else " closed"
        return f"<tensorbus.MappedFile {self._path!r} mode={self._mode!r}{state}>"

    def _open(self) -> _core.MappedFile:
        if self._core is None:
            raise Closed(f"file {self._path!r} is closed")
        return self._core


@public
def map_file(
    path: str | os.PathLike[str],
    shape: Any = None,
    dtype: Any = None,
    mode: Mode = "r",
    *,
    offset: int = 0,
    name: str | None = None,
    library: Library | None = None,
) -> Any:
    """The tensor in a file, or the tensors, without reading them: pages come when they are touched.

    Args:
        path: a file called `.npy` or `.safetensors` is read as one; any other has nothing but the
            elements of one tensor, row-major, in the byte order of the dtype.
        shape: one size or several; one of them may be -1. None takes what is there. Where the file
            says it itself, it is checked (`.npy`) or not allowed (`.safetensors`).
        dtype: of NumPy or PyTorch, or a name. Needed unless the file says it.
        mode: `"r"` to read (PyTorch has no read-only tensors: a write to one ends the process, with
            a message; NumPy raises). `"r+"`: writes reach the file, and all who map or read it, at
            once; `flush` waits for the disk. `"c"`: writes are yours alone. `"w+"`: makes the file,
            of zeros, or empties it first, and takes its blocks on the disk; then as `"r+"`.
        offset: of a file that says nothing about itself, the bytes before the tensor.
        name: one tensor of a `.safetensors` file; without it, a dict of them all.
        library: `"torch"` or `"numpy"`. Without it, whose dtype was given; `.npy`: NumPy;
            `.safetensors`: PyTorch, if it is imported or has a dtype that NumPy lacks, else NumPy.

    Returns:
        A tensor, or a dict of tensors. Each, and each view, keeps the memory for as long as it
        lives. If somebody cuts the file short meanwhile, what is gone reads as zeros; `flush` and
        `MappedFile.check` raise then (docs/files.md).

    Raises:
        InvalidArgument: the file is too short, or not what it says; the message names the field.
        Unsupported: there are no such tensors in this library.
        OutOfMemory: no room on the disk, or in the address space; the message names the limit.
        OSError: as `open` has it (FileNotFoundError, PermissionError, ...).

    >>> import numpy, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "counts.npy")
    >>> counts = map_file(path, (2, 3), "int64", "w+")
    >>> counts[1] = 5
    >>> flush(counts)
    >>> numpy.load(path).tolist()
    [[0, 0, 0], [5, 5, 5]]
    """
    with MappedFile(path, shape, dtype, mode, offset=offset, library=library) as file:
        return file.data if name is None else file.tensor(name)


@public
def flush(tensor: Any) -> None:
    """Waits until what was written to the file of a mapped tensor, or of a view, is on the disk.

    All of the file is meant, not only what this view shows. An empty tensor has nothing to flush.

    Raises:
        InvalidArgument: it is not a tensor that `map_file` returned with mode `"r+"` or `"w+"`.
        SystemCallError: as `MappedFile.flush`.
    """
    library = library_of(tensor)
    try:
        if library == "torch":
            size, address = tensor.numel(), tensor.data_ptr()
        elif library == "numpy":
            size, address = tensor.size, tensor.__array_interface__["data"][0]
        else:
            raise InvalidArgument(f"{type(tensor).__name__}: expected a tensor of a mapped file")
    except RuntimeError as error:  # a sparse one, say
        raise InvalidArgument(f"this tensor is not that of a mapped file: {error}") from None
    if size:
        _core.flush_at(address)


@contextmanager
def _opened(path: str, mode: Mode) -> Iterator[int]:
    """The file, open. A pipe must not keep us waiting for its other end."""
    flags = {"r": os.O_RDONLY, "c": os.O_RDONLY, "r+": os.O_RDWR, "w+": os.O_RDWR | os.O_CREAT}
    fd = os.open(path, flags[mode] | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    try:
        yield fd
    finally:
        os.close(fd)


def _checked_offset(offset: Any) -> int:
    try:
        number = index(offset)
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise InvalidArgument(f"offset={offset!r}: expected bytes, from 0 on")
    return number
