"""What a client and a service say to each other, in the words of messages (docs/tensors.md).

A request is a dict: `reply`, the address of the queue that the answer is for; `types`, the
definitions of the client's request and reply, "" for any; `data`. An answer has one key: `data`,
`error` (the exception's class, its text and the traceback there) or `mismatch`, a text.
"""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from tensorbus._base.error_text import encodable, text_of
from tensorbus._base.errors import ProtocolError, ServiceError, TypeMismatch
from tensorbus._codec.fields import flatten, unflatten
from tensorbus._codec.protocols import Plan
from tensorbus._core import Outgoing, Sample
from tensorbus._pools.worker import RemoteTraceback
from tensorbus._tensors.library import Library
from tensorbus.messages import compatible

Item = tuple[Outgoing, bytes]


def queue_name(service: str) -> str:
    """The queue that a service takes its requests from."""
    return f"service:{service}"


class Types:
    """Of the requests and replies of one side, and their definitions, which are sent."""

    def __init__(self, request: Plan | None, reply: Plan | None) -> None:
        self.request = request
        self.reply = reply
        self.definitions: list[str] = [
            "" if plan is None else plan.definition for plan in (request, reply)
        ]


class Request(NamedTuple):
    """As a service reads it."""

    reply: str
    types: tuple[str, str]
    data: Any
    refusal: Item | None = None  # the answer, if the data cannot be read


def request_item(reply: str, types: Types, data: Any) -> Item:
    """
    Raises:
        MessageError, Unsupported: see `Publisher.publish`.
    """
    data = data if types.request is None else types.request.checked(data)
    return flatten({"reply": reply, "types": types.definitions, "data": data})


def read_request(sample: Sample, library: Library | None) -> Request:
    """
    Raises:
        ProtocolError: it is none.
    """
    match unflatten(sample, library):
        case {"reply": str(reply), "types": [str(wanted), str(answered)], "data": data}:
            return Request(reply, (wanted, answered), data)
        case found:
            raise ProtocolError(f"a {type(found).__name__} that is no request came to a service")


def reply_item(types: Types, data: Any) -> Item:
    """
    Raises:
        MessageError, Unsupported: see `Publisher.publish`.
    """
    return flatten({"data": data if types.reply is None else types.reply.checked(data)})


def error_item(error: BaseException) -> Item:
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return flatten({"error": [type(error).__name__, text_of(error), encodable(lines)]})


def mismatch_item(why: str) -> Item:
    return flatten({"mismatch": why})


def read_reply(service: str, sample: Sample, types: Types, library: Library | None) -> Any:
    """
    Raises:
        ServiceError: the service's callback raised.
        TypeMismatch: the service's types are others.
        MessageError: a field of the reply is not of its type.
        ProtocolError: it is no reply.
    """
    match unflatten(sample, library):
        case {"data": data}:
            return data if types.reply is None else types.reply.received(data, library)
        case {"error": [str(kind), str(text), str(lines)]}:
            raise ServiceError(f"service {service!r} raised {kind}: {text}") from RemoteTraceback(
                lines
            )
        case {"mismatch": str(why)}:
            raise TypeMismatch(f"service {service!r}: {why}")
        case found:
            raise ProtocolError(f"service {service!r} answered a {type(found).__name__}")


def why_not(ours: Types, theirs: tuple[str, str]) -> str | None:
    """Why a service with these types cannot serve a client with those; None if it can."""
    request, reply = ours.definitions
    for what, writer, reader in (("request", theirs[0], request), ("reply", reply, theirs[1])):
        why = compatible(writer, reader) if writer and reader else None
        if why is not None:
            return f"its {what} is of another type: {why}\nsent as\n{writer}\nread as\n{reader}"
    return None
