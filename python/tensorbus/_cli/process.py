"""A command's process: its standard streams, its exit status, and its use of GPUs.

A stream may be closed, full or without a reader, or its encoding may lack most characters. After
any failure, a command ends with one line on standard error and an exit status.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from tensorbus._base.errors import Error, InvalidArgument
from tensorbus._inspection.units import shown

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FAILED = 1
_USAGE = 2
_INTERRUPTED = 130


class _Output(io.FileIO):
    """Standard output: the error of a failed write contains its name."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


class _Errors(io.FileIO):
    """Standard error: text that cannot be written is dropped without an error."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def take_over() -> None:
    """Makes the process's standard streams usable.

    A closed stream is replaced by /dev/null, so that no socket or memory of the bus gets its
    number: then input is empty, output refuses writes, and messages on standard error are dropped.
    A character that the encoding lacks is written as its escape.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is `number`
    sys.stdout = _text_stream(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text_stream(_Errors(2, "w", closefd=False), sys.stderr)


def _text_stream(raw: io.FileIO, before: TextIO | None) -> TextIO:
    """A text stream. `before` is None if Python found the descriptor closed."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if before else "utf-8",
        errors="backslashreplace",
        line_buffering=raw.fileno() == 2 or raw.isatty() or getattr(before, "write_through", False),
    )


def status_of(command: Callable[[], int | None]) -> int:
    """Runs a command and returns its exit status. An error becomes a line on standard error."""
    status = _status_of(command)
    try:
        sys.stdout.flush()
    except OSError:  # already reported; with /dev/null, the interpreter's own flush succeeds
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _status_of(command: Callable[[], int | None]) -> int:
    try:
        try:
            status = command() or 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader is gone, as in `tensorbus topic list | head -1`
        return _FAILED
    except (Error, OSError, MemoryError, UnicodeError) as error:
        print("\n".join(map(shown, f"tensorbus: {error}".split("\n"))), file=sys.stderr)
        return _USAGE if isinstance(error, InvalidArgument) else _FAILED


def leave_gpus() -> None:
    """Disables GPUs: tensors of a GPU then arrive in main memory, copied by their owner.

    Call it before the process joins a domain.
    """
    os.environ["TENSORBUS_CUDA_DRIVER"] = "off"
