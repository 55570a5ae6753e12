"""What the `mcap` package, which knows nothing of Tensorbus, finds in a recording."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcap")
from mcap import reader, records, stream_reader
from mcap.data_stream import ReadDataStream

LOST = "tensorbus.lost"


@dataclass
class McapFile:
    """All that a file has, and what its summary says of it."""

    records: list[Any]
    summary: Any
    messages: Counter[str]

    @property
    def lost(self) -> int:
        return sum(int(one["count"]) for one in lost_in(self))


def read_mcap(path: str | Path) -> McapFile:
    """Reads a whole file, with its checksums, and compares it with its summary."""
    with open(path, "rb") as file:
        found = [*stream_reader.StreamReader(file, validate_crcs=True).records]
    with open(path, "rb") as file:
        whole = reader.make_reader(file, validate_crcs=True)
        summary = whole.get_summary()
        assert summary is not None
        assert [*whole.iter_attachments()]  # the index, by the place that the summary gives
        about, *lost = whole.iter_metadata()
        assert about.name == "tensorbus.recording"
        assert all(one.name == LOST and one.metadata["why"] for one in lost)
        messages = Counter(channel.topic for _, channel, _ in whole.iter_messages())
    _compare(found, summary)
    _compare_chunks(Path(path), summary)
    _require_summary_checksum(Path(path).read_bytes())
    return McapFile(found, summary, messages)


def lost_in(file: McapFile) -> list[dict[str, str]]:
    """What each record of lost messages says."""
    return [
        dict(record.metadata)
        for record in file.records
        if isinstance(record, records.Metadata) and record.name == LOST
    ]


def _compare(found: list[Any], summary: Any) -> None:
    end = next(i for i, record in enumerate(found) if isinstance(record, records.DataEnd))
    data = found[:end]

    def of(kind: type) -> list[Any]:
        return [record for record in data if isinstance(record, kind)]

    messages = of(records.Message)
    statistics = summary.statistics
    assert statistics.message_count == len(messages)
    assert statistics.channel_count == len(of(records.Channel)) == len(summary.channels)
    assert statistics.schema_count == len(of(records.Schema)) == len(summary.schemas)
    assert statistics.metadata_count == len(of(records.Metadata))
    assert statistics.attachment_count == len(of(records.Attachment))
    counts: Mapping[int, int] = Counter(message.channel_id for message in messages)
    assert {key: count for key, count in statistics.channel_message_counts.items() if count} == (
        counts
    )
    times = [message.log_time for message in messages]
    if not summary.chunk_indexes:
        assert times == sorted(times)
    if times:
        bounds = min(times), max(times)
        assert (statistics.message_start_time, statistics.message_end_time) == bounds
    for channel in of(records.Channel):
        assert summary.channels[channel.id] == channel
    for schema in of(records.Schema):
        assert summary.schemas[schema.id] == schema


def _compare_chunks(path: Path, summary: Any) -> None:
    """Each chunk has an index in the summary, and each of its messages one behind it."""
    with path.open("rb") as file:
        chunks = [
            record
            for record in stream_reader.StreamReader(file, emit_chunks=True).records
            if isinstance(record, records.Chunk)
        ]
        assert summary.statistics.chunk_count == len(chunks) == len(summary.chunk_indexes)
        for chunk, index in zip(chunks, summary.chunk_indexes, strict=True):
            times = chunk.message_start_time, chunk.message_end_time
            assert times == (index.message_start_time, index.message_end_time)
            assert index.compression == chunk.compression
            assert index.compressed_size == len(chunk.data)
            assert index.uncompressed_size == chunk.uncompressed_size
            within = [
                record
                for record in stream_reader.breakup_chunk(chunk, validate_crc=True)
                if isinstance(record, records.Message)
            ]
            indexed = []
            for channel, offset in index.message_index_offsets.items():
                file.seek(offset + 9)
                behind = records.MessageIndex.read(ReadDataStream(file))
                assert behind.channel_id == channel
                indexed += [(channel, log_time) for log_time, _ in behind.records]
            assert sorted(indexed) == sorted((one.channel_id, one.log_time) for one in within)


def _require_summary_checksum(file: bytes) -> None:
    from zlib import crc32

    start, _, crc = struct.unpack("<QQI", file[-28:-8])
    assert crc == crc32(file[start:-12])


def add_json(path: Path, topic: str, schema: str) -> None:
    """Has another program write a recording anew, with a message of its own on a further topic."""
    from mcap import writer

    with path.open("rb") as file:
        recorded = [
            (channel, message) for _, channel, message in reader.make_reader(file).iter_messages()
        ]
    with path.open("wb") as file:
        out = writer.Writer(file)
        out.start()
        channels: dict[int, int] = {}
        for channel, message in recorded:
            if channel.id not in channels:
                channels[channel.id] = out.register_channel(
                    channel.topic, channel.message_encoding, 0, channel.metadata
                )
            out.add_message(
                channels[channel.id],
                message.log_time,
                message.data,
                message.publish_time,
                message.sequence,
            )
        own = out.register_schema(schema, "jsonschema", b'{"type": "object"}')
        time = recorded[-1][1].log_time + 1
        out.add_message(out.register_channel(topic, "json", own), time, b"{}", time)
        out.finish()
