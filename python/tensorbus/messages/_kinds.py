"""The types of fields whose values contain no other values.

A kind has the text of its type in a definition, and converts values in both directions: `lower`
checks a value and converts it to types that `tensorbus._codec.fields` encodes; `restore` converts a
received value back. Both return a value that needs no conversion as it is.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tensorbus._base.errors import Unsupported
from tensorbus._codec.received import Received
from tensorbus._tensors.library import Library
from tensorbus.messages._mismatch import Mismatch, refused

# Returns the name of a nested message's class, with or without its fingerprint.
NameOf = Callable[[type], str]


class Kind:
    """One type."""

    # Values of these classes need no conversion, in either direction.
    exact: set[type]

    def __init__(self, text: str, exact: Iterable[type] = ()) -> None:
        self.text = text
        self.exact = set(exact)

    def spell(self, name_of: NameOf) -> str:
        """The type's text in definitions."""
        return self.text

    def lower(self, value: Any) -> Any:
        """Checks and converts a value for sending.

        Raises:
            Mismatch: the value is not of this type.
        """
        if type(value) in self.exact:
            return value
        raise refused(self.text, value)

    def restore(self, value: Any, library: Library | None) -> Any:
        """Checks and converts a received value.

        Args:
            value: the result of `lower` in another process, or any other value.
            library: the library of tensors that the receiver requested; None: the sender's.

        Raises:
            Mismatch: the value is not of this type.
        """
        return self.lower(value)


def lowered_value(kind: Kind, value: Any) -> Any:
    """`kind.lower(value)`, where a received sample stands for its data."""
    return kind.lower(value.data if isinstance(value, Received) else value)


class Everything(set[type]):
    """A set that contains every class."""

    def __contains__(self, kind: object) -> bool:
        return True

    def issuperset(self, kinds: Iterable[Any]) -> bool:
        return True


class AnyKind(Kind):
    """Any value that can be sent."""

    def __init__(self) -> None:
        super().__init__("any")
        self.exact = Everything()


class Usual(Kind):
    """The usual type of a field's values. Other values are sent unchanged, if they can be sent."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind.text)
        self.exact = kind.exact
        self._kind = kind

    def spell(self, name_of: NameOf) -> str:
        return self._kind.spell(name_of)

    def lower(self, value: Any) -> Any:
        try:
            return self._kind.lower(value)
        except Mismatch:
            return value

    def restore(self, value: Any, library: Library | None) -> Any:
        try:
            return self._kind.restore(value, library)
        except Mismatch:
            return value


class Scalar(Kind):
    """A built-in class, with other classes whose values convert to it exactly.

    Args:
        kind: the class.
        builtin: built-in classes whose values are converted, for example int to float.
        numpy: names of NumPy classes whose values are converted, up to 64 bits (complex: 128).
    """

    def __init__(
        self, kind: type, builtin: tuple[type, ...] = (), numpy: tuple[str, ...] = ()
    ) -> None:
        super().__init__("none" if kind is type(None) else kind.__name__, {kind})
        self._kind = kind
        self._builtin = builtin
        self._numpy = numpy

    def lower(self, value: Any) -> Any:
        if type(value) in self.exact:
            return value
        if type(value) in self._builtin or self._is_numpy(value):
            try:
                return self._kind(value)
            except OverflowError:
                raise Mismatch(self.text, "an int beyond its range") from None
        raise refused(self.text, value)

    def _is_numpy(self, value: Any) -> bool:
        numpy: Any = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, numpy.generic):
            return False
        classes = tuple(getattr(numpy, name) for name in self._numpy)
        # g and G have more than 64 bits; NumPy counts timedelta64 (m) among the integers.
        return isinstance(value, classes) and value.dtype.char not in "gGm"


class Instances(Kind):
    """Instances of a library's class: tensors, NumPy scalars. The library is not imported."""

    def __init__(self, text: str, library: str, name: str) -> None:
        super().__init__(text)
        self._library = library
        self._name = name

    def lower(self, value: Any) -> Any:
        kind = type(value)
        if kind not in self.exact:
            found = getattr(sys.modules.get(self._library), self._name, None)
            if found is None or not isinstance(value, found):
                raise refused(self.text, value)
            self.exact.add(kind)
        return value


class Tensors(Instances):
    """Tensors of one library, or of the library that the receiver requested."""

    def restore(self, value: Any, library: Library | None) -> Any:
        if library is not None and hasattr(type(value), "__dlpack__"):
            return value
        return self.lower(value)


class Enumeration(Kind):
    """Members of an enum, sent as their values."""

    def __init__(self, kind: type[enum.Enum]) -> None:
        members = [member for member in kind if not _is_combination(member)]
        spelled_out = ",".join(f"{member.name}={spelled(member.value)}" for member in members)
        super().__init__(f"enum<{kind.__name__}: {spelled_out}>")
        self._kind = kind
        self.values = {type(member.value) for member in members}

    def lower(self, value: Any) -> Any:
        if type(value) is not self._kind:
            raise refused(self.text, value)
        return value.value

    def restore(self, value: Any, library: Library | None) -> Any:
        if type(value) not in self.values:
            raise refused(self.text, value)
        try:
            return self._kind(value)
        except (ValueError, TypeError):
            raise Mismatch(self.text, spelled(value)) from None


def _is_combination(member: enum.Enum) -> bool:
    """True for combined and empty flags. Only some versions of Python iterate over them."""
    return isinstance(member, enum.Flag) and member.value.bit_count() != 1


class Choice(Kind):
    """One of the values of a Literal."""

    def __init__(self, values: Iterable[Any]) -> None:
        by_text = {spelled(value): value for value in values}
        super().__init__(f"literal<{','.join(sorted(by_text))}>")
        self._values = {(type(value), value) for value in by_text.values()}

    def lower(self, value: Any) -> Any:
        if type(value) not in _LITERALS:
            raise refused(self.text, value)
        if (type(value), value) not in self._values:
            raise Mismatch(self.text, spelled(value))
        return value


_LITERALS = (type(None), bool, int, float, str, bytes)


def spelled(value: Any) -> str:
    """A literal as text in definitions; the text is the same in every language.

    >>> [spelled(value) for value in (None, True, -1, 0.5, "a\\n", b"ab")]
    ['none', 'true', '-1', '0.5', '"a\\\\n"', 'b"6162"']
    """
    if type(value) not in _LITERALS:
        raise Unsupported(
            f"{value!r}: only None, bool, int, float, str and bytes can be sent as values of an "
            "enum or a Literal"
        )
    if value is None:
        return "none"
    if type(value) is bytes:
        return f'b"{value.hex()}"'
    return json.dumps(value)
