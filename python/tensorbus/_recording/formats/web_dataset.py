"""WebDataset: samples in tar files, one after the other."""

from __future__ import annotations

from pathlib import Path

from tensorbus._recording.formats.message_files import npy_bytes
from tensorbus._recording.formats.topic_files import Message, file_name
from tensorbus._recording.message_parts import unused

_MAX_SHARD_BYTES = 1 << 30


class WebDatasetFiles:
    """Shards `000000.tar`, `000001.tar` and so on, of about 1 GiB.

    A message is a sample: `json` with its values, and `NAME.npy` for each tensor.
    """

    def __init__(self, folder: Path) -> None:
        from webdataset import ShardWriter

        pattern = str(folder).replace("%", "%%") + "/%06d.tar"
        self._writer = ShardWriter(
            pattern, maxcount=2**63, maxsize=_MAX_SHARD_BYTES, verbose=0, encoder=False
        )
        self._shards = 0

    def add(self, message: Message) -> int:
        names: dict[str, str] = {}
        for name in message.parts.tensors:
            # Readers convert names to lower case, and a name with "_" first is left out.
            stem = file_name(name).lower().lstrip("_") or "tensor"
            names[name] = f"{unused(stem, [used[:-4] for used in names.values()])}.npy"
        sample = {names[key]: npy_bytes(tensor) for key, tensor in message.parts.tensors.items()}
        line = message.line(names)
        self._writer.write({"__key__": message.name, "json": line, **sample})
        new, self._shards = self._writer.shard - self._shards, self._writer.shard
        return int(new)

    def close(self) -> None:
        self._writer.close()
