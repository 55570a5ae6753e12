"""What an import brings, which is neither PyTorch nor NumPy, and where names say they are from."""

from __future__ import annotations

import importlib
import pickle
import signal
import subprocess
import sys
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, tell
from support.missing import without_torch_and_numpy


def test_the_import_brings_neither_torch_nor_numpy(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import sys

        import tensorbus

        assert tensorbus.__version__
        assert not {"torch", "numpy"} & set(sys.modules)

    elsewhere.run(look)


def test_the_import_brings_nothing_that_takes_longer_than_itself(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import sys

        import tensorbus as tb

        later = {"asyncio", "pickle", "tensorbus.nodes", "tensorbus.messages"}
        assert not later & set(sys.modules)
        assert tb.Node.__module__ == "tensorbus"
        assert not {"torch", "numpy"} & set(sys.modules)

    elsewhere.run(look)


@pytest.mark.parametrize("package", ["", ".messages", ".nodes", ".multiprocessing", ".cortex"])
def test_what_is_public_says_that_it_is_from_a_public_module(package: str) -> None:
    public: Any = importlib.import_module(f"tensorbus{package}")
    for found in (getattr(public, name) for name in public.__all__):
        module = getattr(found, "__module__", "")
        if not module.startswith("tensorbus") or hasattr(found, "__self__"):
            continue  # a module, a version, a method of the default context
        assert package or module == "tensorbus", found
        assert not any(part.startswith("_") for part in module.split(".")), found
        assert getattr(importlib.import_module(module), found.__name__) is found
        assert pickle.loads(pickle.dumps(found)) is found


def test_what_pickles_is_read_in_another_process(elsewhere: Elsewhere) -> None:
    def read(pickled: bytes) -> None:
        import pickle

        *others, queue, shared = pickle.loads(pickled)
        queue.put([*map(repr, others), str(shared)])

    with tb.Queue() as queue, tb.share([1, 2]) as shared:
        others = [
            tb.Header(1, 2, "t", "p", 3),
            tb.PoseMessage([0], [1]),  # type: ignore[arg-type]
            tb.MessageHeader(1, 2, 3),
            tb.TopicInfo("t", (tb.PublisherInfo("t", "n", "", 0, 1, "p"),)),
            tb.NodeInfo("n", (), 1, "p"),
            tb.WorkerDied("by SIGKILL"),
            tb.Parameter("rate", 1, 2, "", "default"),
            tb.ImageMessage,
            tb.Node,
            tb.share,
        ]
        elsewhere.start(read, pickle.dumps([*others, queue, shared.handle]))
        seen = queue.get(timeout=PATIENCE)
        assert seen[-1] == str(shared.handle)
        assert [text.partition(" at ")[0] for text in seen[:-1]] == [
            repr(each).partition(" at ")[0] for each in others
        ]


def test_messages_without_tensors_bring_neither(elsewhere: Elsewhere) -> None:
    def send() -> None:
        import sys

        import tensorbus as tb

        with tb.Publisher("t") as publisher, tb.Subscriber("t") as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish({"id": 7})
            assert subscriber.receive(PATIENCE).data == {"id": 7}
        assert not {"torch", "numpy"} & set(sys.modules)

    elsewhere.run(send)


def test_a_process_without_both_publishes_and_receives(elsewhere: Elsewhere) -> None:
    def send() -> None:
        without_torch_and_numpy()
        import tensorbus as tb

        with tb.Publisher("t") as publisher, tb.Subscriber("t") as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish({"id": 7})
            assert subscriber.receive(PATIENCE).data == {"id": 7}

    elsewhere.run(send)


def test_a_tensor_of_a_missing_library_says_what_to_do(elsewhere: Elsewhere, torch: object) -> None:
    def receive() -> None:
        without_torch_and_numpy()
        import tensorbus as tb

        with tb.Subscriber("t") as subscriber:
            sample = subscriber.receive(PATIENCE)
            try:
                _ = sample.data
            except tb.Unsupported as error:
                tell(str(error))
            assert subscriber.receive(PATIENCE).data == {"id": 7}  # the bus goes on

    import tensorbus as tb

    with tb.Publisher("t") as publisher:
        other = elsewhere.start(receive)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(torch.zeros(3))  # type: ignore[attr-defined]
        publisher.publish({"id": 7})
        why = other.hear()
        assert "pip install torch" in why
        assert 'library="numpy"' in why


def test_an_array_without_numpy_says_what_to_do(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        without_torch_and_numpy()
        import tensorbus as tb

        with tb.Subscriber("t") as subscriber:
            sample = subscriber.receive(PATIENCE)
            try:
                _ = sample.data
            except tb.Unsupported as error:
                tell(str(error))

    import numpy as np

    import tensorbus as tb

    with tb.Publisher("t") as publisher:
        other = elsewhere.start(receive)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.zeros(3))
        assert "pip install numpy" in other.hear()


def test_all_public_names_complete_before_they_are_imported(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import rlcompleter
        import sys

        import tensorbus as tb

        assert set(tb.__all__) <= set(dir(tb))
        assert "tensorbus.nodes" not in sys.modules
        others = {name for name in dir(tb) if not name.startswith("_")} - set(tb.__all__)
        assert all(type(getattr(tb, name)) is type(sys) for name in others), others
        assert "sys" not in others
        complete = rlcompleter.Completer({"tb": tb}).attr_matches
        assert [match.partition("(")[0] for match in complete("tb.AsyncS")] == [
            "tb.AsyncSubscriber"
        ]

    elsewhere.run(look)


def test_a_misspelt_name_is_told_with_the_module_that_has_the_right_one() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Queu'") as missing:
        tb.Queu  # noqa: B018
    # Python's "Did you mean" is made of these two.
    assert (missing.value.name, missing.value.obj) == ("Queu", tb)


INTERRUPTED = """
import signal, sys

def is_inside(frame):
    if frame is None:
        return False
    spec, loaded = frame.f_locals.get("spec"), frame.f_locals.get("module")
    names = getattr(spec, "name", None), getattr(loaded, "__name__", None)
    return {module!r} in names or is_inside(frame.f_back)

def trace(frame, event, argument):
    if frame.f_code.co_filename.endswith({file!r}) and is_inside(frame):
        sys.settrace(None)
        print("interrupted", flush=True)
        signal.raise_signal(signal.SIGINT)

sys.settrace(trace)
import tensorbus
print("went on", flush=True)
"""


@pytest.mark.parametrize(
    ("file", "module"), [("datetime.py", "msgspec._core"), ("enum.py", "tensorbus._core")]
)
def test_ctrl_c_while_an_extension_is_imported_ends_the_program(file: str, module: str) -> None:
    script = INTERRUPTED.format(file=file, module=module)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout == "interrupted\n"
    assert ended.stderr.endswith("KeyboardInterrupt\n")
    assert ended.returncode == -signal.SIGINT
