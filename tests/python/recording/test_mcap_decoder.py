"""`tensorbus.mcap.DecoderFactory`: what the `mcap` package reads of a recording."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from recorded_topics import record
from support.harness import PATIENCE
from support.mcap_files import add_json
from tensorbus._recording.message_data import decode, encode
from tensorbus._recording.recorded_tensor import DTYPES
from tensorbus._tensors.numpy_arrays import OWN
from tensorbus.mcap import DecoderFactory

reader = pytest.importorskip("mcap.reader")


def decoded(path: Path, **options: Any) -> list[Any]:
    with path.open("rb") as file:
        found = reader.make_reader(file, decoder_factories=[DecoderFactory(**options)])
        return [data for *_, data in found.iter_decoded_messages()]


def raw(path: Path) -> list[bytes]:
    """The data of the messages, as the file has it."""
    with path.open("rb") as file:
        return [message.data for *_, message in reader.make_reader(file).iter_messages()]


def same(one: Any, other: Any) -> bool:
    if isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(other, dict):
        return [*one] == [*other] and all(same(one[key], other[key]) for key in other)
    if isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(type(one) is type(other) and one == other)


MESSAGES: list[Any] = [
    np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
    np.arange(12.0).reshape(3, 4).T,
    np.arange(6, dtype=np.int16)[::-1],
    np.broadcast_to(np.float32(7), (3, 2)),
    np.zeros((0, 3), np.complex64),
    np.array(5, np.uint64),
    np.array(["2026-01-01"], "M8[D]"),
    {"id": 7, "image": np.ones((2, 2)), "rest": [1.5, None, b"raw", ("a", {2})]},
    OrderedDict(a=np.float32(1), b=tb.HeaderMessage(5, 6, "map")),
    "text",
]


@pytest.mark.parametrize("compress", [None, "zstd"])
def test_decoded_messages_are_those_of_a_recording(tmp_path: Path, compress: str | None) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(path, "topic", reliable=True, compress=compress),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for message in MESSAGES:
            publisher.publish(message)
    recorded = [sample.data for sample in tb.Recording(path)]
    found = decoded(path)
    assert len(found) == len(MESSAGES)
    for one, other in zip(found, recorded, strict=True):
        assert same(one, other), (one, other)


def test_arrays_of_bytes_are_views_of_what_the_reader_has_read(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, {"topic": [{"image": np.full((50, 60, 3), 7, np.uint8), "at": np.arange(3.0)}]})
    (data,) = raw(path)
    decoder = DecoderFactory().decoder_for("tensorbus", None)
    assert decoder is not None
    message = decoder(data)
    assert np.shares_memory(message["image"], np.frombuffer(data, np.uint8))
    assert not message["image"].flags.writeable
    assert message["at"].flags.aligned
    assert message["at"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("library", [None, "torch"])
def test_tensors_of_torch_keep_their_kind_and_their_memory(
    tmp_path: Path, torch: ModuleType, library: Any
) -> None:
    path = tmp_path / "run.mcap"
    sent = {
        "image": torch.arange(6, dtype=torch.uint8).reshape(2, 3),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "weight": torch.nn.Parameter(torch.ones(2)),
        "sparse": torch.eye(3).to_sparse(),
        "conjugate": torch.tensor([1 + 2j]).conj(),
    }
    record(path, {"topic": [sent]})
    (found,) = decoded(path, library=library)
    assert found["image"].tolist() == sent["image"].tolist()
    assert found["half"].dtype == torch.bfloat16
    assert found["half"].tolist() == [1.5, -2.0]
    assert isinstance(found["weight"], torch.nn.Parameter)
    assert found["sparse"].to_dense().equal(torch.eye(3))
    assert found["conjugate"].is_conj()
    assert found["conjugate"].resolve_conj().equal(sent["conjugate"].resolve_conj())


def test_tensors_of_torch_can_be_read_as_arrays(tmp_path: Path, torch: ModuleType) -> None:
    path = tmp_path / "run.mcap"
    record(path, {"topic": [torch.arange(3)]})
    (found,) = decoded(path, library="numpy")
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [0, 1, 2]


def test_buffers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, {"topic": [{"raw": bytearray(b"abc")}]})
    (found,) = decoded(path)
    assert bytes(found["raw"]) == b"abc"


def test_messages_of_other_programs_are_for_other_decoders(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, {"topic": [1]})
    add_json(path, "foreign", "robot/State")
    factory = DecoderFactory()
    assert factory.decoder_for("json", None) is None
    with path.open("rb") as file:
        found = reader.make_reader(file, decoder_factories=[factory])
        with pytest.raises(Exception, match="json"):
            [*found.iter_decoded_messages()]


def test_numbers_of_dtypes_are_those_of_the_core(tmp_path: Path, torch: ModuleType) -> None:
    path = tmp_path / "run.mcap"
    kinds = [np.zeros(1, name) for name in sorted(OWN)]
    kinds += [
        torch.zeros(1, dtype=dtype)
        for name in DTYPES
        if name not in OWN and isinstance(dtype := getattr(torch, name, None), torch.dtype)
    ]
    record(path, {"topic": [{str(number): kind for number, kind in enumerate(kinds)}]})
    (data,) = raw(path)
    names = [str(kind.dtype).removeprefix("torch.") for kind in kinds]
    assert sorted(tensor.dtype for tensor in decode(data).tensors) == sorted(names)


def test_damaged_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, {"topic": [{"at": np.arange(3.0)}]})
    (data,) = raw(path)
    decoder = DecoderFactory().decoder_for("tensorbus", None)
    assert decoder is not None
    head = decode(data)
    assert head.sequence == 0
    for length in (0, 3, 40, 60, len(data) - 1):
        with pytest.raises(tb.InvalidArgument):
            decoder(data[:length])
    end = int.from_bytes(data[8:16], "little")
    for place in range(end):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(tb.Error):
            decoder(bytes(damaged))


def test_a_tensor_outside_of_its_message_is_refused() -> None:
    data = bytearray(encode(np.arange(3.0), 0, 0))
    from zlib import crc32

    end = int.from_bytes(data[8:16], "little")
    for offset in (end - 8, len(data) - 8, 2**63):
        data[56:64] = offset.to_bytes(8, "little")
        data[4:8] = crc32(data[8:end]).to_bytes(4, "little")
        decoder = DecoderFactory().decoder_for("tensorbus", None)
        assert decoder is not None
        with pytest.raises(tb.InvalidArgument, match="outside of its message"):
            decoder(bytes(data))


def test_the_package_is_not_imported_before_it_is_used() -> None:
    code = "import sys, tensorbus.mcap; assert 'mcap' not in sys.modules, 'it is imported'"
    subprocess.run([sys.executable, "-c", code], check=True)
