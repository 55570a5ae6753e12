"""The messages between a client and a service, encoded like those of topics (docs/tensors.md).

A request is a dict: `reply`, the address of the queue for the answer; `types`, the definitions of
the client's request and reply types, "" if untyped; `data`. An answer is a dict with one key:
`data`, `error` (class, text and traceback of an exception, "" if it is a `Refused`) or `mismatch`
(a text).
"""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from tensorbus._base.errors import ProtocolError, Refused, ServiceError, TypeMismatch, Unsupported
from tensorbus._base.text import encodable, text_of
from tensorbus._codec.fields import flatten, unflatten
from tensorbus._codec.protocols import Plan
from tensorbus._core import Outgoing, Sample
from tensorbus._pools.answers import RemoteTraceback
from tensorbus._tensors.library import Library
from tensorbus.messages import compatible

Item = tuple[Outgoing, bytes]


def queue_name(service: str) -> str:
    """The name of a service's queue of requests."""
    return f"service:{service}"


class Types:
    """The request and reply types of a client or service, and their definitions."""

    def __init__(self, request: Plan | None, reply: Plan | None) -> None:
        self.request = request
        self.reply = reply
        self.definitions: list[str] = [
            "" if plan is None else plan.definition for plan in (request, reply)
        ]


class Request(NamedTuple):
    """A request, decoded by the service."""

    reply: str
    types: tuple[str, str]
    data: Any
    refusal: Item | None = None  # the answer to a request whose data cannot be read


def request_item(reply: str, types: Types, data: Any) -> Item:
    """The item of a request.

    Raises:
        MessageError, Unsupported: see `Publisher.publish`.
    """
    data = data if types.request is None else types.request.checked(data)
    return _flattened({"reply": reply, "types": types.definitions}, data)


def read_request(sample: Sample, library: Library | None) -> Request:
    """The request in a sample.

    Raises:
        ProtocolError: it is not a request.
    """
    match unflatten(sample, library):
        case {
            "reply": str(reply),
            "types": [str(request_type), str(reply_type)],
            "data": data,
        }:
            return Request(reply, (request_type, reply_type), data)
        case other:
            raise ProtocolError(f"a service received a {type(other).__name__}, not a request")


def reply_item(types: Types, data: Any) -> Item:
    """The item of a reply.

    Raises:
        MessageError, Unsupported: see `Publisher.publish`.
    """
    return _flattened({}, data if types.reply is None else types.reply.checked(data))


def _flattened(fields: dict[str, Any], data: Any) -> Item:
    """The item of these fields and the data, which an error calls "data", as that of a topic."""
    try:
        return flatten({**fields, "data": data})
    except Unsupported as error:
        place = "data['data']"
        if not str(error).startswith(place):
            raise
        raise Unsupported("data" + str(error).removeprefix(place)) from error.__cause__


def error_item(error: BaseException) -> Item:
    """The answer with an exception; a `Refused` has no traceback."""
    if isinstance(error, Refused):
        return flatten({"error": [type(error).__name__, text_of(error), ""]})
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return flatten({"error": [type(error).__name__, text_of(error), encodable(lines)]})


def mismatch_item(why: str) -> Item:
    return flatten({"mismatch": why})


def read_reply(service: str, sample: Sample, types: Types, library: Library | None) -> Any:
    """The data of the reply in a sample.

    Raises:
        ServiceError: the service's callback raised, or refused the request.
        TypeMismatch: the service has other types.
        MessageError: a field of the reply has the wrong type.
        ProtocolError: it is not a reply.
    """
    match unflatten(sample, library):
        case {"data": data}:
            return data if types.reply is None else types.reply.received(data, library)
        case {"error": [str(kind), str(text), str(lines)]}:
            what = f"raised {kind}" if lines else "refused the request"
            error = ServiceError(f"service {service!r} {what}: {text}")
            error.kind, error.text = kind, text
            raise error from (RemoteTraceback(lines) if lines else None)
        case {"mismatch": str(why)}:
            raise TypeMismatch(f"service {service!r}: {why}")
        case other:
            raise ProtocolError(f"service {service!r} sent a {type(other).__name__}, not a reply")


def mismatch(own: Types, client: tuple[str, str]) -> str | None:
    """Why a service with its own types cannot serve a client; None if it can.

    Args:
        own: the service's types.
        client: definitions of the client's request and reply types.
    """
    request, reply = own.definitions
    for what, writer, reader in (("request", client[0], request), ("reply", reply, client[1])):
        why = compatible(writer, reader) if writer and reader else None
        if why is not None:
            return f"its {what} is of another type: {why}\nsent as\n{writer}\nread as\n{reader}"
    return None
