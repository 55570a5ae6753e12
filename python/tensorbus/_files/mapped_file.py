"""Tensors over mapped files."""

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
    """A mapped file: each page of its tensors is read when it is first used.

    `close()`, or the end of a `with` block, closes the file; its tensors stay valid.

    Args:
        path, shape, dtype, mode, offset, library: as for `tensorbus.map_file`.

    Raises:
        InvalidArgument, Unsupported, OutOfMemory, OSError: as `tensorbus.map_file`.

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
        if mode == "w+":  # all checks come before the file is changed
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
        """The path that was given."""
        return self._path

    @property
    def mode(self) -> Mode:
        """The mode, which determines the effect of a write: see `map_file`."""
        return self._mode

    @property
    def names(self) -> list[str]:
        """The names of the tensors of a `.safetensors` file; none for other files."""
        return [] if self._contents.metadata is None else list(self._contents.places)

    @property
    def metadata(self) -> dict[str, str]:
        """The `__metadata__` of a `.safetensors` file."""
        return dict(self._contents.metadata or {})

    @property
    def data(self) -> Any:
        """The tensor; for a `.safetensors` file, a dict of all its tensors by name.

        Raises:
            Unsupported: the chosen library has no tensors of this type.
            Closed: the file was closed.
        """
        if self._data is None:
            if self._contents.metadata is None:
                self._data = self.tensor()
            else:
                self._data = {name: self.tensor(name) for name in self._contents.places}
        return self._data

    def tensor(self, name: str | None = None) -> Any:
        """One tensor: by name from a `.safetensors` file, without a name from any other file.

        Raises:
            InvalidArgument: the file has no tensor with this name.
            Unsupported: the chosen library has no tensors of this type.
            Closed: the file was closed.
        """
        core = self._open()
        place = self._contents.places.get("" if name is None else name)
        named = self._contents.metadata is not None
        if place is None or named != (name is not None):
            known = ", ".join(map(repr, self.names[:20])) if named else "it has one tensor"
            raise InvalidArgument(f"file {self._path!r}: no tensor has name={name!r}; {known}")
        return tensor_at(core, self._contents, place, self._path)

    def check(self) -> None:
        """Raises an error if the mapped memory may differ from the file.

        Call it after reading, before you use the data. docs/files.md lists what it can detect, and
        what it cannot.

        Raises:
            SystemCallError: the file was truncated, or a page could not be read or written; or, in
                modes `"r"` and `"c"`, the file was written to since it was mapped.
            Closed: the file was closed.
        """
        self._open().check()

    def flush(self) -> None:
        """Waits until all writes are on the disk. Other processes can read them without `flush`.

        Raises:
            InvalidArgument: the mode is not `"r+"` or `"w+"`.
            SystemCallError: a write failed, or `check` would raise it.
            Closed: the file was closed.
        """
        self._open().flush()

    def close(self) -> None:
        """Closes the file. Its tensors stay valid; the last one frees the memory.

        Writes that were not flushed are not lost: the kernel writes them later.
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
    """Maps the tensor or tensors of a file: each page is read when it is first used.

    Args:
        path: the ending `.npy` or `.safetensors` selects that format; any other file contains only
            the elements of one tensor, row-major, in the byte order of the dtype.
        shape: one size or several; one of them may be -1: it is computed from the size of the
            file. None: all elements of the file. For `.npy` it is compared with the file's shape;
            for `.safetensors` it is not allowed.
        dtype: a dtype of NumPy or PyTorch, or a name; required unless the file contains it.
        mode: `"r"`: only for reading; NumPy arrays are read-only, and a write to a torch tensor
            ends the process, with a message. `"r+"`: writes change the file, and are visible at
            once to all processes that map or read it; `flush` waits for the disk. `"c"`: writes
            stay in this process. `"w+"`: creates the file, or empties an existing file, fills it
            with zeros, and allocates its blocks on the disk; then like `"r+"`.
        offset: for files without a header, the number of bytes before the tensor.
        name: the name of one tensor of a `.safetensors` file. `None`: a dict of all tensors.
        library: `"torch"` or `"numpy"`; by default the library of the given dtype. The default for
            `.npy` is NumPy; for `.safetensors`, PyTorch if it is imported or the file has a dtype
            that NumPy lacks, else NumPy.

    Returns:
        A tensor, or a dict of tensors. Each tensor, and each view, keeps the memory as long as it
        exists. If the file is truncated meanwhile, the lost part reads as zeros, and `flush` and
        `MappedFile.check` raise an error (docs/files.md).

    Raises:
        InvalidArgument: the file is too short or malformed, or contradicts an argument; the message
            names the field.
        Unsupported: the library has no tensors of this type.
        OutOfMemory: the disk or the address space is full; the message names the limit.
        OSError: `open` raised it (FileNotFoundError, PermissionError, ...).

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
    """Waits until all writes to the file of a mapped tensor, or of a view of one, are on the disk.

    It flushes the whole file, not only the part of the view. For an empty tensor it does nothing.

    Args:
        tensor: a tensor that `map_file` returned with mode `"r+"` or `"w+"`, or a view of it.

    Raises:
        InvalidArgument: it is another tensor, or not a tensor.
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
    except RuntimeError as error:  # for example, a sparse tensor
        raise InvalidArgument(f"this tensor is not in a mapped file: {error}") from None
    if size:
        _core.flush_at(address)


@contextmanager
def _opened(path: str, mode: Mode) -> Iterator[int]:
    """Opens the file, with O_NONBLOCK: opening a FIFO would wait for a process at its other end."""
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
