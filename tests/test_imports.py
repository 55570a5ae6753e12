"""Neither PyTorch nor NumPy is needed, nor imported before it is."""

from __future__ import annotations

from harness import PATIENCE, Elsewhere, tell


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
        assert tb.Node.__module__ == "tensorbus.nodes._node"
        assert not {"torch", "numpy"} & set(sys.modules)

    elsewhere.run(look)


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


def without_torch_and_numpy() -> None:
    """Makes this process one in which neither is installed."""
    import importlib.abc
    import sys

    class Blocker(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
            if name.partition(".")[0] in ("torch", "numpy"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocker())


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
        assert 'as_="numpy"' in why


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
