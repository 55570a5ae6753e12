"""Tensors on GPUs from Python, over the stand-in for the driver: no framework has those."""

from __future__ import annotations

import numpy as np
import pytest

import tensorbus as tb
from support.cuda.standin import ENVIRONMENT, Array, DLPackArray, Stream, needs_standin, read_on
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell

pytestmark = needs_standin

BYTES = 1 << 20


def publish_numbers(late: bool) -> None:
    """Publishes a tensor of whatever number it is told; late: written when it hears once more."""
    with tb.Publisher("frames", reliable=True) as publisher:
        stream = Stream()
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        while (number := hear()) is not None:
            loan = publisher.loan(BYTES, "uint8", device="cuda")
            if late:
                stream.pause()
            stream.write(loan, number)
            publisher.publish({"image": loan, "id": number}, stream=stream)
            if late:
                hear()
                stream.resume()
            del loan
        tell(publisher.stats["bytes_copied"])


def test_a_loan_on_a_device_arrives_as_it_was_written(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber:
            stream = Stream()
            tell("ready")
            for _ in range(10):
                sample = subscriber.receive()
                image = sample.data["image"]
                assert image.device == "cuda:0"
                assert image.__dlpack_device__() == (2, 0)
                assert not image.writable
                tell((sample.data["id"], read_on(stream, sample, image), sample.intact))

    publisher = elsewhere.start(publish_numbers, False, env=ENVIRONMENT)
    subscriber = elsewhere.start(receive, env=ENVIRONMENT)
    assert subscriber.hear() == "ready"
    for number in range(10):
        publisher.tell(number)
        assert subscriber.hear() == (number, {number}, True)
    publisher.tell(None)
    assert publisher.hear() == 0


def test_it_arrives_before_it_is_written_and_is_read_afterwards(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber:
            stream = Stream()
            sample = subscriber.receive()
            sample.use_on(stream)
            found = stream.read(sample.data["image"])
            tell("under way")
            stream.synchronize()
            tell(set(found.raw))

    publisher = elsewhere.start(publish_numbers, True, env=ENVIRONMENT)
    subscriber = elsewhere.start(receive, env=ENVIRONMENT)
    publisher.tell(7)
    assert subscriber.hear() == "under way"
    publisher.tell("go on")
    assert subscriber.hear() == {7}
    publisher.tell(None)


def test_who_waits_for_a_publisher_that_was_killed_goes_on_and_is_told(
    elsewhere: Elsewhere,
) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber:
            stream = Stream()
            sample = subscriber.receive()
            sample.use_on(stream)
            found = stream.read(sample.data["image"])
            tell(sample.intact)
            stream.synchronize()
            tell(sample.intact)
            del found

    publisher = elsewhere.start(publish_numbers, True, env=ENVIRONMENT)
    subscriber = elsewhere.start(receive, env=ENVIRONMENT)
    publisher.tell(7)
    assert subscriber.hear() is True
    publisher.kill()
    assert subscriber.hear() is False


def test_shared_queued_and_handed_on_it_stays_where_it_is(elsewhere: Elsewhere) -> None:
    def own() -> None:
        stream = Stream()
        tensor = tb.empty(BYTES, "uint8", device="cuda:1")
        stream = Stream(1)
        stream.write(tensor, 9)
        with tb.share(tensor) as shared:
            tell(str(shared.handle))
            hear()

    def put_on(handle: str) -> None:
        tensor = tb.attach(handle)
        with tb.Queue(name="frames") as queue:
            queue.put([tensor, "from the middle"])
            del tensor
            tell("put")
            hear()

    def get() -> None:
        stream = Stream(1)
        with tb.Queue.open("frames", timeout=PATIENCE) as queue:
            tensor, text = queue.get(timeout=PATIENCE)
            assert tensor.device == "cuda:1"
            found = stream.read(tensor)
            stream.synchronize()
            tell((set(found.raw), text))

    owner = elsewhere.start(own, env=ENVIRONMENT)
    middle = elsewhere.start(put_on, owner.hear(), env=ENVIRONMENT)
    assert middle.hear() == "put"
    end = elsewhere.start(get, env=ENVIRONMENT)
    assert end.hear() == ({9}, "from the middle")
    middle.tell("done")
    owner.tell("done")


def test_memory_comes_back_when_the_reader_let_go(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with tb.Publisher("frames", reliable=True, depth=1) as publisher:
            stream = Stream()
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            seen = set()
            for number in range(200):
                loan = publisher.loan(BYTES, "uint8", device="cuda")
                seen.add(loan.__cuda_array_interface__["data"][0])
                stream.write(loan, number)
                publisher.publish(loan, stream=stream)
                stream.synchronize()
            tell(len(seen))

    def receive() -> None:
        with tb.Subscriber("frames", timeout=PATIENCE, max_held=2) as subscriber:
            stream = Stream()
            for number in range(200):
                sample = subscriber.receive()
                assert read_on(stream, sample, sample.data) == {number}
                del sample

    publisher = elsewhere.start(publish, env=ENVIRONMENT)
    elsewhere.start(receive, env=ENVIRONMENT)
    assert publisher.hear() < 10


def publish_foreign(kind: str) -> None:
    """Publishes an array of another library, and tells when it has been let go of."""
    import weakref

    stream = Stream()
    with tb.Publisher("frames", reliable=True) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        array = Array(BYTES) if kind == "interface" else DLPackArray(BYTES)
        stream.write(array, 5)
        publisher.publish({"image": array, "id": 1}, stream=stream)
        alive = weakref.ref(array)
        del array
        tell(publisher.stats["bytes_copied"])
        hear()
        tell(alive() is not None)
        hear()
        eventually(lambda: alive() is None)
        tell("gone")


@pytest.mark.parametrize("kind", ["interface", "dlpack"])
def test_an_array_of_another_library_is_read_where_it_lies(elsewhere: Elsewhere, kind: str) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber:
            stream = Stream()
            sample = subscriber.receive()
            tell(read_on(stream, sample, sample.data["image"]))
            hear()
            del sample
            tell("let go")

    publisher = elsewhere.start(publish_foreign, kind, env=ENVIRONMENT)
    subscriber = elsewhere.start(receive, env=ENVIRONMENT)
    assert publisher.hear() == 0
    assert subscriber.hear() == {5}
    publisher.tell("read")
    assert publisher.hear() is True, "its reader has it still"
    subscriber.tell("go on")
    assert subscriber.hear() == "let go"
    publisher.tell("let go")
    assert publisher.hear() == "gone"


@pytest.mark.parametrize(
    "wrong", [{"typestr": ">f4"}, {"typestr": "|V8"}, {"mask": 1}, {"strides": (3,)}]
)
def test_an_array_on_a_gpu_that_has_no_name_here_is_refused(wrong: dict[str, object]) -> None:
    class Odd:
        __cuda_array_interface__ = {
            "shape": (2,),
            "typestr": "<f4",
            "data": (4096, False),
            "version": 3,
        } | wrong

    with tb.Publisher("frames") as publisher, pytest.raises(tb.Unsupported, match=r"cannot|whole"):
        publisher.publish(Odd())


def test_a_program_ends_while_its_arrays_are_read(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            tell("received")
            hear()
            tell(sample.data["image"].shape)

    def end() -> None:
        stream = Stream()
        publisher = tb.Publisher("frames", reliable=True, history=3)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(5):
            array = Array(BYTES)
            stream.write(array, 5)
            stream.synchronize()  # of what it writes from, it keeps the last
            publisher.publish({"image": array}, stream=stream)
        hear()

    publisher = elsewhere.start(end, env=ENVIRONMENT)
    subscriber = elsewhere.start(receive, env=ENVIRONMENT)
    assert subscriber.hear() == "received"
    publisher.tell("end")
    publisher.finish()
    subscriber.tell("go on")
    assert subscriber.hear() == (BYTES,)


def test_libraries_that_cannot_have_it_say_so(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        import pytest

        with tb.Publisher("frames", history=1) as publisher:
            publisher.publish(publisher.loan(BYTES, "float32", device="cuda"))
            with tb.Subscriber("frames", timeout=PATIENCE, library="numpy") as subscriber:
                sample = subscriber.receive()
                with pytest.raises(tb.Unsupported, match="cuda:0"):
                    sample.data  # noqa: B018
            with tb.Subscriber("frames", timeout=PATIENCE, library="dlpack") as subscriber:
                memory = subscriber.receive().data
            with pytest.raises(BufferError, match="GPU"):
                memoryview(memory)
            with pytest.raises(ValueError, match="ambiguous"):
                memory.__dlpack__(stream=0)
            assert "cuda:0" in repr(memory)

    elsewhere.run(receive, env=ENVIRONMENT)


def test_without_a_driver_a_loan_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORBUS_CUDA_DRIVER", "off")
    with (
        tb.Publisher("frames") as publisher,
        pytest.raises(tb.Unsupported, match="TENSORBUS_CUDA_DRIVER"),
    ):
        publisher.loan(3, np.float32, device="cuda")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:-1", 3, "cpu:1"])
def test_what_is_no_device_is_refused(device: object) -> None:
    with tb.Publisher("frames") as publisher, pytest.raises(tb.InvalidArgument, match="device="):
        publisher.loan(3, np.float32, device=device)


@pytest.mark.parametrize("stream", ["main", -1, 1.5, None.__class__, True])
def test_what_is_no_stream_is_refused(stream: object) -> None:
    with tb.Publisher("frames") as publisher, pytest.raises(tb.InvalidArgument, match="stream="):
        publisher.publish(3, stream=stream)


def test_received_memory_is_pinned_on_request(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", pin=True, timeout=PATIENCE) as subscriber:
            tell(int(subscriber.receive().data.sum()))
        with pytest.raises(tb.InvalidArgument):
            tb.Subscriber("frames", pin=True, access="private")

    subscriber = elsewhere.start(receive, env=ENVIRONMENT)
    with tb.Publisher("frames", history=1) as publisher:
        publisher.publish(np.ones(BYTES, dtype=np.uint8))
        assert subscriber.hear() == BYTES


def test_without_a_driver_nothing_can_be_pinned(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with pytest.raises(tb.Unsupported, match="pin"):
            tb.Subscriber("frames", pin=True)
        tell("told")

    assert elsewhere.start(receive, env={"TENSORBUS_CUDA_DRIVER": "off"}).hear() == "told"
