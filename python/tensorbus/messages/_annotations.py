"""The types of a message's fields, from the annotations of its class."""

from __future__ import annotations

import dataclasses
import enum
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from tensorbus._base.errors import Unsupported
from tensorbus._codec.handle import Handle
from tensorbus.messages import _containers as containers
from tensorbus.messages._kinds import (
    AnyKind,
    Choice,
    Enumeration,
    Instances,
    Kind,
    Scalar,
    Tensors,
)

# Returns the kind of a message class, and None for any other class.
Nested = Callable[[type], "Kind | None"]

_CAN_BE = (
    "supported are bool, int, float, complex, str, bytes, None, NumPy scalars, np.ndarray, "
    "torch.Tensor, tensorbus.Handle, enums, Literal, Any, messages, unions, and list, tuple, dict, "
    "set and frozenset of these"
)


def hints_of(cls: type, otherwise: Any = None) -> dict[str, Any]:
    """The type of each field of a dataclass. A string is evaluated in the scope of its class.

    Args:
        cls: the dataclass.
        otherwise: the type of a field whose annotation cannot be evaluated; `None`: it raises.

    Raises:
        Unsupported: an annotation cannot be evaluated.
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        names = _names_at(_owner_of(cls, field.name))
        try:
            found[field.name] = _evaluated(field.type, names)
        except Exception as error:  # an annotation may be any expression
            if otherwise is not None:
                found[field.name] = otherwise
                continue
            raise Unsupported(
                f"{cls.__qualname__}.{field.name}: its type {field.type!r} cannot be read: {error}"
            ) from error
    return found


def _evaluated(hint: Any, names: dict[str, Any]) -> Any:
    written = types.SimpleNamespace(__annotations__={"field": hint})
    evaluated: Any = typing.get_type_hints(written, names)["field"]
    if sys.version_info < (3, 11) and isinstance(evaluated, types.GenericAlias):
        # get_type_hints leaves strings inside it unevaluated.
        inside = [_evaluated(argument, names) for argument in get_args(evaluated)]
        origin: Any = get_origin(evaluated)
        return origin[tuple(inside)]
    return evaluated


def _owner_of(cls: type, field: str) -> type:
    for base in cls.__mro__:
        if field in annotations_of(base):
            return base
    return cls


def annotations_of(cls: type) -> Mapping[str, Any]:
    """The annotations of the class itself, without evaluating them."""
    written: Mapping[str, Any] = cls.__dict__.get("__annotations__", {})  # noqa: RUF063
    return written


def _names_at(owner: type) -> dict[str, Any]:
    """The names in the scope of a class, with stand-ins for imports under TYPE_CHECKING."""
    return {
        **_STAND_INS,
        **vars(sys.modules.get(owner.__module__, types)),
        **owner.__dict__.get("_message_names", {}),
        owner.__name__: owner,
    }


def names_in(cls: type, scope: types.FrameType) -> dict[str, Any]:
    """The local names of a function that occur in the annotations of a class inside it."""
    names = scope.f_locals
    if names is scope.f_globals:
        return {}
    text = " ".join(hint for hint in annotations_of(cls).values() if isinstance(hint, str))
    return {name: names[name] for name in set(re.findall(r"\w+", text)) if name in names}


class _StandIn:
    """Stands for a library that is imported only for type checkers, or is not installed."""

    def __init__(self, library: str) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return _class_named(self._library, name)


def _class_named(library: str, name: str) -> type:
    """A class that stands for a library's class in annotations."""

    def __class_getitem__(cls: type, _: Any) -> type:
        return cls

    return type(
        name, (), {"__module__": library, "__class_getitem__": classmethod(__class_getitem__)}
    )


_NDARRAY = _class_named("numpy", "ndarray")
_NUMPY = _StandIn("numpy")
_STAND_INS = {
    "numpy": _NUMPY,
    "np": _NUMPY,
    "npt": types.SimpleNamespace(NDArray=_NDARRAY),
    "NDArray": _NDARRAY,
    "torch": _StandIn("torch"),
    "Tensor": _class_named("torch", "Tensor"),
}


def kind_of(hint: Any, nested: Nested) -> Kind:
    """The kind of a type.

    Raises:
        Unsupported: fields cannot have this type; the text begins with the type.

    >>> kind_of(dict[str, list[float] | None], lambda cls: None).text
    'dict<str,list<float>|none>'
    """
    hint = _unaliased(hint)
    origin = get_origin(hint)
    if origin is None:
        return _plain(hint, nested)
    arguments = get_args(hint)
    if hint in _EMPTY_TUPLES:
        return _tuple((), nested)  # in Python 3.10 typing.Tuple[()] has an argument
    if not arguments:
        return _plain(origin, nested)  # typing.List means list
    if origin is Union or origin is types.UnionType:
        return _union([kind_of(argument, nested) for argument in arguments])
    if origin is Literal:
        return Choice(arguments)
    if origin in _ITEMS:
        return containers.Items(origin, kind_of(arguments[0], nested))
    if origin is dict:
        return containers.Mapping(*(kind_of(argument, nested) for argument in arguments))
    if origin is tuple:
        return _tuple(arguments, nested)
    return _plain(origin, nested)  # numpy.ndarray[...]: shape and dtype are not checked


def _unaliased(hint: Any) -> Any:
    """Resolves `type X = ...`, for example NumPy's NDArray."""
    origin = get_origin(hint)
    alias = hint if origin is None else origin
    if type(alias).__name__ != "TypeAliasType":
        return hint
    return _unaliased(alias.__value__ if origin is None else alias.__value__[get_args(hint)])


_ITEMS = (list, set, frozenset)
_EMPTY_TUPLES = (tuple[()], typing.Tuple[()])  # noqa: UP006  (they are not equal)


def _tuple(arguments: tuple[Any, ...], nested: Nested) -> Kind:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return containers.Items(tuple, kind_of(arguments[0], nested))
    return containers.Places([kind_of(argument, nested) for argument in arguments])


def _union(kinds: list[Kind]) -> Kind:
    flat: dict[str, Kind] = {}
    for kind in kinds:
        for member in kind.members if isinstance(kind, containers.OneOf) else [kind]:
            flat.setdefault(member.text, member)
    members = list(flat.values())
    return members[0] if len(members) == 1 else containers.OneOf(members)


def _scalar(kind: Any) -> Kind | None:
    if kind is None or kind is type(None):
        return Scalar(type(None))
    if kind is bool:
        return Scalar(bool, (), ("bool_",))
    if kind is int:
        return Scalar(int, (), ("integer",))
    if kind is float:
        return Scalar(float, (int,), ("integer", "floating"))
    if kind is complex:
        return Scalar(complex, (int, float), ("number",))
    if kind is str:
        return Scalar(str, (), ("str_",))
    if kind is bytes:
        return Scalar(bytes, (), ("bytes_",))
    return None


def _plain(kind: Any, nested: Nested) -> Kind:
    found = _scalar(kind)
    if found is not None:
        return found
    if kind is Any or kind is object:
        return AnyKind()
    if kind in _ITEMS or kind is tuple:
        return containers.Items(kind, AnyKind())
    if kind is dict:
        return containers.Mapping(AnyKind(), AnyKind())
    if kind is Handle:
        return Kind("handle", {Handle})
    if isinstance(kind, type):
        if issubclass(kind, enum.Enum):
            return Enumeration(kind)
        found = nested(kind) or _of_library(kind)
    if found is None:
        name = kind.__name__ if isinstance(kind, type) else repr(kind)
        raise Unsupported(f"{name} cannot be the type of a field; {_CAN_BE}")
    return found


def _of_library(kind: type) -> Kind | None:
    """The kind of a class of NumPy or PyTorch, or of its stand-in, by the name of the class."""
    library, name = kind.__module__, kind.__name__
    if library == "numpy":
        if name == "ndarray":
            return Tensors("array", "numpy", "ndarray")
        return Instances(f"numpy.{name.removesuffix('_')}", "numpy", name)
    if library == "ml_dtypes":
        return Instances(f"numpy.{name}", library, name)
    if library.partition(".")[0] == "torch" and name in ("Tensor", "Parameter"):
        return Tensors("tensor", "torch", "Tensor")
    return None
