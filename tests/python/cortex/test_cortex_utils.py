"""Cortex's tools: loggers, fingerprints, values in bytes, the interpreter, tracing, run."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

import numpy as np
import pytest

from support.harness import Elsewhere, tell
from tensorbus.cortex import Node
from tensorbus.cortex.messages.standard import IntMessage, StringMessage
from tensorbus.cortex.utils import (
    compute_fingerprint,
    deserialize,
    get_logger,
    hashing,
    run,
    runtime,
    serialize,
    set_log_level,
    tracing,
)


def test_a_logger_writes_to_stdout_once(capsys: pytest.CaptureFixture[str]) -> None:
    logger = get_logger("test_cortex_utils")
    assert get_logger("test_cortex_utils", logging.DEBUG) is logger
    logger.info("seen")
    set_log_level(logger, "warning")
    logger.info("not seen")
    out = capsys.readouterr().out
    assert out.count("INFO | seen") == 1
    assert "not seen" not in out
    set_log_level(logger, "none of these")
    assert logger.level == logger.handlers[0].level == logging.INFO


def test_fingerprints() -> None:
    number = compute_fingerprint(IntMessage)
    assert number == IntMessage.fingerprint() != compute_fingerprint(StringMessage)
    data = hashing.fingerprint_to_bytes(number)
    assert len(data) == 8
    assert hashing.bytes_to_fingerprint(data + b"more") == number
    hashing.register_fingerprint(IntMessage, 7)
    assert hashing.get_cached_fingerprint(IntMessage) == 7
    hashing.clear_fingerprint_cache()
    assert hashing.get_cached_fingerprint(IntMessage) == number


@pytest.mark.parametrize(
    "value",
    [None, True, -1, 2**63 - 1, 0.5, float("inf"), "text", b"\0\xff", [1, [2.0, None]], {"a": {}}],
)
def test_values_in_bytes(value: Any) -> None:
    data = serialize(value)
    assert deserialize(data) == (value, len(data))


def test_arrays_and_tensors_in_bytes(torch: Any) -> None:
    value = {"array": np.arange(6).reshape(2, 3), "tensors": [torch.ones(2)]}
    found, _ = deserialize(serialize(value))
    assert np.array_equal(found["array"], value["array"])
    assert torch.equal(found["tensors"][0], torch.ones(2))
    with pytest.raises(TypeError):
        serialize(object())


def test_the_interpreter() -> None:
    info = runtime.runtime_info()
    assert info.python_version == sys.version_info[:3]
    assert info.cpu_count == len(os.sched_getaffinity(0))
    assert runtime.is_free_threaded() is info.free_threaded
    advice = runtime.low_latency_advisory()
    assert advice is None if info.free_threaded else advice


def test_callbacks_are_traced_where_the_environment_says_so(elsewhere: Elsewhere) -> None:
    def program() -> None:
        async def main() -> None:
            async with Node("node") as node:
                publisher = node.create_publisher("/n", IntMessage)

                async def on_number(message: IntMessage, header: Any) -> None:
                    if message.data == 4:
                        node.stop()

                node.create_subscriber("/n", IntMessage, on_number)
                publisher.publisher.wait_for_subscribers(timeout=10)
                for number in range(5):
                    publisher.publish(IntMessage(number))
                await node.run()

        run(main())
        with tracing.stage("mine"):
            pass
        found = tracing.snapshot()
        tell((tracing.enabled(), {name: len(times) for name, times in found.items()}))
        tracing.reset()
        tell(tracing.snapshot())

    other = elsewhere.start(program, env={"CORTEX_TRACE_LATENCY": "3"})
    assert other.hear() == (True, {"async.callback": 3, "mine": 1})
    assert other.hear() == {}
    assert not tracing.enabled()
    tracing.record("nothing", 7)
    assert tracing.snapshot() == {}


def test_run_returns_what_the_program_does_and_debugs_its_loop() -> None:
    async def main() -> bool:
        return asyncio.get_running_loop().get_debug()

    assert run(main(), debug=True)
    assert not run(main())
