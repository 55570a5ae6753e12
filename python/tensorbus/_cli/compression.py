"""What commands that write recordings are told of compression."""

from __future__ import annotations

import typer


def compressions(given: list[str]) -> str | dict[str, str] | None:
    """What `Recorder` takes, of `zstd`, or of some `TOPIC=zstd`.

    >>> compressions(["zstd"]), compressions(["a=zstd", "b=lz4"]), compressions([])
    ('zstd', {'a': 'zstd', 'b': 'lz4'}, None)
    """
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = [text.rpartition("=") for text in given]
    for text, (topic, _, how) in zip(given, pairs, strict=True):
        if not (topic and how):
            raise typer.BadParameter(f"--compress {text!r}: expected TOPIC=zstd or TOPIC=lz4")
    return {topic: how for topic, _, how in pairs}
