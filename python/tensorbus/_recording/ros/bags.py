"""ROS bags as recordings."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tensorbus._base.errors import InvalidArgument
from tensorbus._recording.left_out import LeftOut
from tensorbus._recording.recording_file import recording_file
from tensorbus._recording.ros.conversion import converted, plain_message, stamp_ns


class Imported(NamedTuple):
    """The count of written messages, and the messages that were left out."""

    messages: int
    left_out: LeftOut


def import_bag(
    bag: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    topics: Collection[str] = (),
    overwrite: bool = False,
    plain: bool = False,
) -> Imported:
    """Writes the messages of a ROS 2 bag (a folder; sqlite3 or MCAP) to a new recording.

    A topic has its name in ROS, without the "/" at its beginning. The recorded time of a message is
    that in the bag. Its time of publishing is the stamp in its header; without one, the recorded
    time.

    Args:
        bag: the bag.
        path: the new file.
        topics: names of topics; empty for all.
        overwrite: replace an existing file.
        plain: write each message as a dict of all its fields. By default, messages for which
            Tensorbus has a type become that type (`tensorbus._recording.ros.conversion`).

    Raises:
        ImportError: `rosbags` or `mcap` is not installed.
        InvalidArgument: the bag cannot be read, it has none of the topics, or the file exists.
        OSError: a file cannot be opened or written.
    """
    from rosbags.highlevel import AnyReader, AnyReaderError
    from rosbags.typesys import Stores, get_typestore

    usual = get_typestore(Stores.LATEST)  # for bags that do not contain their types
    messages, left_out = 0, LeftOut()
    try:
        with AnyReader([Path(bag)], default_typestore=usual) as reader:
            selected = _selected(reader.connections, topics)
            with recording_file(path, overwrite) as file:
                for connection, time_ns, data in _messages(reader, selected, bag):
                    topic = _topic_of(connection)
                    with left_out.of(topic):
                        message = reader.deserialize(data, connection.msgtype)
                        value = plain_message(message) if plain else converted(message)
                        file.add(topic, value, time_ns, stamp_ns(message) or time_ns)
                        messages += 1
    except AnyReaderError as error:
        raise InvalidArgument(f"bag {os.fsdecode(bag)!r}: {error}") from error
    return Imported(messages, left_out)


def _topic_of(connection: Any) -> str:
    return str(connection.topic).lstrip("/")


def _selected(connections: list[Any], topics: Collection[str]) -> list[Any]:
    """The connections of these topics, or all.

    Raises:
        InvalidArgument: the bag does not have one of the topics.
    """
    wanted = {topic.lstrip("/") for topic in topics}
    known = {_topic_of(connection) for connection in connections}
    if unknown := wanted - known:
        raise InvalidArgument(
            f"topics: the bag has no {', '.join(map(repr, sorted(unknown)))}; it has "
            f"{', '.join(map(repr, sorted(known))) or 'none'}"
        )
    return [each for each in connections if not wanted or _topic_of(each) in wanted]


def _messages(
    reader: Any, connections: list[Any], bag: str | os.PathLike[str]
) -> Iterator[tuple[Any, int, bytes]]:
    """The connection, the time and the data of each message.

    Raises:
        InvalidArgument: the bag is damaged.
    """
    if not connections:
        return
    found = reader.messages(connections=connections)
    while True:
        try:
            message = next(found, None)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # storages raise errors of many kinds for damaged files
            raise InvalidArgument(f"bag {os.fsdecode(bag)!r}: {error}") from error
        if message is None:
            return
        yield message
