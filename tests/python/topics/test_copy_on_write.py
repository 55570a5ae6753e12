"""Received torch tensors can be written to: the write is this process's own."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, joined, tell
from support.private_pages import SIZES, private_bytes

pytestmark = pytest.mark.usefixtures("nothing_stays_private")

WRITES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda data: data.add_(1),
    "an operator": lambda data: data.__iadd__(1),
    "a view": lambda data: data.view(-1)[:].add_(1),
    "its NumPy array": lambda data: np.add(data.numpy(), 1, out=data.numpy()),
    "its storage": lambda data: data.copy_(data + 1),
    "a thread": lambda data: in_a_thread(lambda: data.add_(1)),
}


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_seen_here(torch: ModuleType, name: str, size: int) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(torch.arange(size, dtype=torch.float32))
        data = subscriber.receive().data
        WRITES[name](data)
        assert data.equal(torch.arange(size) + 1.0)


@pytest.mark.parametrize("size", SIZES)
def test_another_process_does_not_see_it(
    elsewhere: Elsewhere, torch: ModuleType, size: int
) -> None:
    def write(topic: str) -> None:
        with tb.Subscriber(topic, timeout=PATIENCE) as subscriber:
            data = subscriber.receive().data
            data.fill_(7)
            tell(float(data.sum()))
            input()
            tell(float(data.sum()))

    with (
        tb.Publisher("image", history=1) as publisher,
        tb.Subscriber("image", timeout=PATIENCE) as reader,
    ):
        publisher.publish(torch.ones(size))
        process = elsewhere.start(write, "image")
        assert process.hear() == 7.0 * size
        assert reader.receive().data.equal(torch.ones(size))
        process.tell("on")
        assert process.hear() == 7.0 * size, "it stays while the tensor is held"


@pytest.mark.parametrize("size", SIZES)
def test_what_comes_later_at_the_same_place_is_what_was_published(
    torch: ModuleType, size: int
) -> None:
    addresses = set()
    with joined() as (publisher, subscriber):
        for number in range(100):
            publisher.publish(torch.full((size,), float(number)))
            data = subscriber.receive().data
            addresses.add(data.data_ptr())
            assert data.eq(number).all()
            data += 1000
            assert data.eq(number + 1000).all()
            del data
    if size >= 1024:  # what has less than a page is copied
        assert len(addresses) < 50, "the memory was used again"


def test_only_the_pages_that_are_written_take_memory(torch: ModuleType) -> None:
    def rss_anon() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) * 1024

    with joined() as (publisher, subscriber):
        publisher.publish(torch.zeros(64 << 20, dtype=torch.uint8))
        data = subscriber.receive().data
        before = rss_anon()
        data[0] = data[32 << 20] = data[-1] = 1
        assert rss_anon() - before < 1 << 20
        assert private_bytes() == 64 << 20, "they may be written to without another fault"
        data.fill_(1)
        assert rss_anon() - before > 60 << 20


def test_two_readers_in_one_process_have_one_memory(torch: ModuleType) -> None:
    with (
        tb.Publisher("t") as publisher,
        tb.Subscriber("t", timeout=PATIENCE) as one,
        tb.Subscriber("t", timeout=PATIENCE) as two,
    ):
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        publisher.publish(torch.zeros(5000))
        first, second = one.receive().data, two.receive().data
        first += 1
        assert second.eq(1).all()
        second[2500:] = 2
        del first
        assert second.sum() == 2500 + 5000, "what one wrote stays while the other holds it"


def test_views_that_overlap_in_a_message_keep_the_writes_of_each_other(torch: ModuleType) -> None:
    whole = torch.zeros(10_000)
    with joined() as (publisher, subscriber):
        publisher.publish({"left": whole[:6000], "middle": whole[2000:8000], "right": whole[5000:]})
        data = subscriber.receive().data
        data["middle"].fill_(1)
        data["left"][0] = 2
        data["right"][-1] = 3
        assert (data["left"][0], data["left"][1999], data["left"][2000]) == (2, 0, 1)
        right = data.pop("right")
        del data
        gc.collect()
        assert (right[0], right[2999], right[3000], right[-1]) == (1, 1, 0, 3)


@pytest.mark.parametrize("count", [3, 5000], ids=["copied", "private pages"])
def test_a_tensor_that_begins_within_an_element_of_another_shows_its_writes(
    torch: ModuleType, count: int
) -> None:
    """The two cannot be views of one storage."""
    memory = bytearray(8 * count + 8)
    halves = torch.frombuffer(memory, dtype=torch.int32, count=2 * count)
    between = torch.frombuffer(memory, dtype=torch.int64, offset=4, count=count)
    with joined() as (publisher, subscriber):
        for form in (dict, list):
            publisher.publish(form([("halves", halves), ("between", between)]))
            data = dict(subscriber.receive().data)
            data["halves"][1] = 7
            assert data["between"][0] == 7
            data["between"][1] = 2**32
            assert data["halves"][4] == 1


def test_a_shared_publisher_is_followed_until_the_first_write(
    elsewhere: Elsewhere, torch: ModuleType
) -> None:
    """Also a tensor that is smaller than a page."""

    def change(handle: str, value: float) -> None:
        for tensor in tb.attach(handle, access="shared").values():
            tensor.fill_(value)

    weights = {"large": torch.zeros(5000), "small": torch.zeros(3)}
    with tb.share(weights, shared=True) as shared:
        seen = tb.attach(shared.handle)
        elsewhere.run(change, str(shared.handle), 1.0)
        assert seen["large"].eq(1).all()
        assert seen["small"].eq(1).all()
        seen["large"][0] = seen["small"][0] = 5
        elsewhere.run(change, str(shared.handle), 2.0)
        assert seen["large"][0] == seen["small"][0] == 5
        assert seen["large"][3000] == 2, "this page was not written"
        del seen
        seen = tb.attach(shared.handle)
        assert seen["large"].eq(2).all()
        assert seen["small"].eq(2).all()
        del seen


def test_what_was_written_is_published_as_it_is_now(
    elsewhere: Elsewhere, torch: ModuleType
) -> None:
    def pass_on(source: str, target: str) -> None:
        with (
            tb.Subscriber(source, timeout=PATIENCE) as subscriber,
            tb.Publisher(target, history=2) as publisher,
        ):
            data = subscriber.receive().data
            publisher.publish(data)
            data += 1
            publisher.publish(data)
            publisher.publish({"a part": data[10:2000], "n": 1})
            tell("published")
            input()

    with (
        tb.Publisher("in", history=1) as publisher,
        tb.Subscriber("out", timeout=PATIENCE) as subscriber,
    ):
        publisher.publish(torch.zeros(5000))
        process = elsewhere.start(pass_on, "in", "out")
        assert process.hear() == "published"
        samples = [subscriber.receive().data for _ in range(3)]
        process.tell("end")
    assert samples[0].eq(0).all(), "it was published before the write"
    assert samples[1].eq(1).all()
    assert samples[2]["a part"].eq(1).all()


def test_a_forked_child_and_its_parent_write_for_themselves(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish({"before": torch.zeros(5000), "after": torch.zeros(5000)})
        data = subscriber.receive().data
        data["before"] += 1
        child = os.fork()
        if child == 0:
            data["before"] += 1
            data["after"] += 10
            good = data["before"].eq(2).all() and data["after"].eq(10).all()
            del data
            os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert data["before"].eq(1).all()
        assert data["after"].eq(0).all()
        data["after"] += 1
        assert data["after"].eq(1).all()


def test_many_threads_write_to_one_tensor_at_once(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        for _ in range(20):
            publisher.publish(torch.zeros(8, 100_000))
            data = subscriber.receive().data
            barrier = threading.Barrier(8)

            def write(row: int, data: Any = data, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                data[row] += row

            threads = [threading.Thread(target=write, args=(row,)) for row in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert data.sum(1).tolist() == [row * 100_000 for row in range(8)]


def test_any_number_of_written_tensors_is_held(torch: ModuleType) -> None:
    with joined(publisher={"depth": 2000}, subscriber={"max_held": 2000}) as pair:
        publisher, subscriber = pair
        held = []
        for number in range(1500):
            publisher.publish(torch.full((2000,), float(number)))
            held.append(subscriber.receive().data.add_(1))
        assert [float(tensor[-1]) for tensor in held] == [number + 1 for number in range(1500)]


def test_batch_normalization_updates_weights_that_were_received(torch: ModuleType) -> None:
    def net() -> Any:
        return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))

    source, copy = net(), net()
    with tb.Publisher("weights", history=1) as publisher, tb.Subscriber("weights") as subscriber:
        publisher.publish(source.state_dict())
        copy.load_state_dict(subscriber.receive(timeout=PATIENCE).data, assign=True)
        copy(torch.ones(1, 3, 8, 8))
        assert copy[1].num_batches_tracked == 1
        assert source[1].num_batches_tracked == 0
        del copy


def test_a_tensor_of_a_file_is_written_to_here_alone(
    elsewhere: Elsewhere, torch: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "frames.npy"
    np.save(path, np.zeros(5000, np.float32))

    def publish(topic: str, path: str) -> None:
        with tb.Publisher(topic, history=1) as publisher:
            publisher.publish(tb.map_file(path, library="torch"))
            tell("published")
            input()

    process = elsewhere.start(publish, "file", str(path))
    assert process.hear() == "published"
    with tb.Subscriber("file", timeout=PATIENCE) as subscriber:
        data = subscriber.receive().data
        data += 1
        assert data.eq(1).all()
        assert not np.load(path).any()
        del data
    process.tell("end")


def test_a_write_that_finds_no_room_says_so_and_ends_the_process(
    elsewhere: Elsewhere, torch: ModuleType
) -> None:
    def write(topic: str) -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with tb.Subscriber(topic, timeout=PATIENCE) as subscriber:
            data = subscriber.receive().data
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 20, 1 << 20))
            data[0] = 1
        tell("survived")

    with tb.Publisher("camera/image", history=1) as publisher:
        publisher.publish(torch.zeros(8 << 20))
        process: Process = elsewhere.start(write, "camera/image")
        code, errors = process.end()
    assert code == -signal.SIGSEGV, errors
    assert "received from topic 'camera/image', and there is no room for private copies" in errors
    assert "RLIMIT_DATA" in errors


@pytest.mark.parametrize("off", ["0", "1"])
def test_it_holds_without_the_messages(elsewhere: Elsewhere, torch: ModuleType, off: str) -> None:
    def write(topic: str) -> None:
        with tb.Subscriber(topic, timeout=PATIENCE) as subscriber:
            data = subscriber.receive().data
            data[0] = 1
        tell(float(data[0]))

    with tb.Publisher("t", history=1) as publisher:
        publisher.publish(torch.zeros(5000))
        process = elsewhere.start(write, "t", env={"TENSORBUS_FAULT_MESSAGE": off})
        assert process.hear() == 1.0


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_a_sample_that_comes_while_its_memory_shows_writes_is_what_was_published(
    torch: ModuleType, library: Any
) -> None:
    """The publisher uses its memory again while the reader still has a name for it."""
    memory = tb.empty((3000,), torch.float32)
    with (
        tb.Publisher("t") as publisher,
        tb.Subscriber("t", timeout=PATIENCE, library=library) as subscriber,
        tb.Subscriber("t", timeout=PATIENCE) as writer,
    ):
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        written = []
        for number in range(4):
            memory.fill_(number)
            publisher.publish(memory)
            written.append(writer.receive().data)  # all at one place
            written[-1] += 100
            sample = subscriber.receive()
            assert (sample.data == number).all()
            assert (sample.copy().data == number).all()
            assert (np.asarray(sample) == number).all()
        part = written[-1]
        memory.fill_(7)
        publisher.publish(memory[1500:])
        part[0] = 5
        assert (subscriber.receive().data == 7).all()
        del written, part, sample


def test_an_array_shows_the_writes_of_its_sample_for_as_long_as_it_lives(torch: ModuleType) -> None:
    both = torch.zeros(5000)
    with joined() as (publisher, subscriber):
        publisher.publish({"tensor": both, "array": both.numpy()})
        data = subscriber.receive().data
        tensor, array = data["tensor"], data["array"]
        tensor += 1
        del data, tensor
        assert (array == 1).all()


OTHER_HANDLERS = {
    "faulthandler": "import faulthandler; faulthandler.enable()",
    "of the loader": "import torch; torch._C._set_worker_signal_handlers()",
}


@pytest.mark.parametrize("handler", OTHER_HANDLERS)
def test_a_handler_that_came_later_changes_nothing_for_the_next_subscriber(
    elsewhere: Elsewhere, torch: ModuleType, handler: str
) -> None:
    def receive_twice(install: str) -> None:
        import torch

        for number in range(2):
            with tb.Publisher(f"t{number}") as publisher, tb.Subscriber(f"t{number}") as subscriber:
                publisher.wait_for_subscribers()
                publisher.publish(torch.zeros(5000))
                data = subscriber.receive().data
                data += 1
            exec(install)
        tell(float(data.sum()))

    assert elsewhere.start(receive_twice, OTHER_HANDLERS[handler]).hear() == 5000


def test_workers_of_a_loader_write_to_what_they_inherited(
    elsewhere: Elsewhere, torch: ModuleType
) -> None:
    def load() -> None:
        import torch

        class Images(torch.utils.data.Dataset):
            def __len__(self) -> int:
                return 8

            def __getitem__(self, index: int) -> torch.Tensor:
                image = images[index]
                image /= 2
                return image.sum()

        with tb.Publisher("images", depth=8) as publisher, tb.Subscriber("images") as subscriber:
            publisher.wait_for_subscribers()
            for number in range(8):
                publisher.publish(torch.full((2000,), float(number)))
            images = [subscriber.receive().data for _ in range(8)]
        loader = torch.utils.data.DataLoader(
            Images(), num_workers=2, multiprocessing_context="fork"
        )
        tell([float(total) for total in loader])
        tell([float(image[0]) for image in images])

    process = elsewhere.start(load)
    assert process.hear() == [1000.0 * number for number in range(8)]
    assert process.hear() == [float(number) for number in range(8)]


def test_many_writes_to_rows_of_a_file_leave_no_mappings(torch: ModuleType, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((2000, 4096), np.float32))

    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    rows = tb.map_file(tmp_path / "rows.npy", library="torch")
    with joined() as (publisher, subscriber):
        before = 0
        for number in range(600):
            publisher.publish(rows[number * 3 % 2000])
            data = subscriber.receive().data
            data += 1
            del data
            before = before or mappings()
        assert mappings() < before + 20


def test_a_system_call_that_fills_a_received_tensor_fails(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber), open("/dev/zero", "rb", buffering=0) as zeros:
        publisher.publish(torch.ones(5000))
        data = subscriber.receive().data
        with pytest.raises(OSError, match="Bad address"):
            zeros.readinto(data.numpy())
        data[0] = 5  # from now on the pages are ours
        assert zeros.readinto(data.numpy()) == data.nbytes
        assert not data.any()
