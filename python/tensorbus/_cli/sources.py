"""What `tensorbus topic pub` publishes: values, lines of JSON, images and arrays."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Literal

import typer

from tensorbus._base.errors import InvalidArgument
from tensorbus._cli.output import fail_without
from tensorbus._files.mapped_file import map_file
from tensorbus._tensors import numpy_arrays

_IMAGES = (".png", ".jpg", ".jpeg")
_ARRAY = ".npy"


@dataclass(frozen=True)
class Source:
    """One or more values."""

    kind: Literal["value", "lines", "image", "array"]
    given: Any
    """The value, or the path of the file."""

    def values(self) -> Iterator[Any]:
        """The values; each call reads the file again."""
        if self.kind == "lines":
            yield from _values_in(sys.stdin)
        elif self.kind == "image":
            yield image_of(self.given)
        elif self.kind == "array":
            yield map_file(self.given, library="numpy")
        else:
            yield self.given

    def rows(self) -> Iterator[Any]:
        """The elements of the values, along their first dimension; an image remains whole.

        Raises:
            InvalidArgument: a value has none.
        """
        for value in self.values():
            if self.kind == "image":
                yield value
                continue
            if not (isinstance(value, list | tuple) or getattr(value, "ndim", False)):
                raise InvalidArgument(f"--each: {self.given!r} has no rows")
            yield from value


def sources_of(given: list[str]) -> list[Source]:
    """The sources that are named on the command line.

    Raises:
        BadParameter: one of them is no value, and there is no file or folder of its name.
    """
    return [source for text in given for source in _sources_of(text)]


def _sources_of(text: str) -> list[Source]:
    if text == "-":
        return [Source("lines", "standard input")]
    try:
        return [Source("value", value_of(text))]
    except typer.BadParameter as error:
        paths = [*map(Path, sorted(glob(text), key=_natural))] if has_magic(text) else [Path(text)]
        if not paths or not all(path.exists() for path in paths):
            raise typer.BadParameter(f"{error.message}, and no file has this name") from None
    found = [source for path in paths for source in _files_of(path)]
    if not found:
        raise typer.BadParameter(f"{text!r} has no images (png, jpg) and no arrays (npy)")
    return found


def _files_of(path: Path) -> list[Source]:
    """The source of a file; those of a folder in the order of their names, 2.png before 10.png."""
    if not path.is_dir():
        return [Source("array" if path.suffix == _ARRAY else "image", str(path))]
    names = sorted((str(file) for file in path.iterdir()), key=_natural)
    wanted = (name for name in names if name.lower().endswith((*_IMAGES, _ARRAY)))
    return [source for name in wanted for source in _files_of(Path(name))]


def _natural(name: str) -> list[tuple[int, str]]:
    """The key by which numbers in names are sorted by their values.

    >>> sorted(["a10.png", "a2.png"], key=_natural)
    ['a2.png', 'a10.png']
    """
    return [
        (int(part), part) if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)
    ]


def value_of(text: str) -> Any:
    """The value of a text that is JSON or a Python literal.

    >>> value_of('{"ready": true}'), value_of("(1, None)")
    ({'ready': True}, (1, None))
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise typer.BadParameter(
            f"{text!r} is neither JSON nor a literal of Python; a text needs quotes of its own: "
            f"""'"{text}"'"""
        ) from None


def _values_in(lines: Any) -> Iterator[Any]:
    """The values of lines, each as it is read; empty lines are left out."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield value_of(line.strip())
            except typer.BadParameter as error:
                raise InvalidArgument(f"line {number} of standard input: {error.message}") from None


def image_of(path: str) -> Any:
    """The pixels of an image, (height, width, 1 or 3): gray, or red, green and blue.

    Raises:
        OSError: `open` raised it.
        InvalidArgument: the file is not an image that Pillow can read.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        fail_without(error)
    try:
        with Image.open(path) as image:
            turned = ImageOps.exif_transpose(image)
            pixels = numpy_arrays.learn().asarray(_plain(turned))
    except Exception as error:  # Pillow raises almost anything for a damaged file
        if isinstance(error, OSError) and error.errno:
            raise
        raise InvalidArgument(f"file {path!r}: {error}") from None
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _plain(image: Any) -> Any:
    """The image with 8 or 16 bits of gray, or with 8 bits of red, green and blue."""
    gray = {"1": "L", "LA": "L", "I": "I;16"}
    if image.mode in ("L", "RGB") or image.mode.startswith("I;16"):
        return image
    return image.convert(gray.get(image.mode, "RGB"))
