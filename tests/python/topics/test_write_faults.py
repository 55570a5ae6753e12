"""With access="read", a write to a received torch tensor ends the process, with a message."""

from __future__ import annotations

import signal
from types import ModuleType

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, tell

FAULT = -signal.SIGSEGV
MESSAGE = "tensorbus: a write to a read-only tensor that was received from topic"
TRACEBACK = "Fatal Python error: Segmentation fault"  # what faulthandler says


def write(topic: str, statement: str, access: str = "read", before: str = "") -> None:
    """Receives `data`, and runs a statement that writes to it."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    exec(before)
    import torch

    names = {"torch": torch}
    with tb.Subscriber(topic, access=access, timeout=PATIENCE) as subscriber:
        sample = subscriber.receive()
        names.update(sample=sample, data=sample.data, copy=sample.copy())
        exec(statement, names)
    tell("survived")


def ends_by_a_fault(process: Process) -> str:
    """What it said on stderr."""
    code, errors = process.end()
    assert code == FAULT, errors
    return errors


def told(errors: str, topic: str) -> bool:
    return errors.count(MESSAGE) == 1 and f"{MESSAGE} '{topic}'" in errors


IN_A_THREAD = """
import threading
thread = threading.Thread(target=data.zero_)
thread.start()
thread.join()
"""
IN_A_FORK = """
import os, signal
child = os.fork()
if child == 0:
    data.zero_()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
os.kill(os.getpid(), -code)
"""
AFTER_ALL_ELSE_IS_GONE = """
part = data[500:600]
del sample, data, copy
import gc
gc.collect()
part[3] = 1
"""
WRITES = {
    "in place": "data.add_(1)",
    "an element": "data[3] = 1",
    "the last element": "data[-1] = 1",
    "a view": "data.view(10, 100).t()[5:7].fill_(3)",
    "out=": "torch.add(data, 1, out=data)",
    "its storage": "data.untyped_storage().fill_(0)",
    "its NumPy array": "data.numpy()[:] = 1",
    "its DLPack copy": "torch.from_dlpack(data)[0] = 1",
    "an optimizer": "p = torch.nn.Parameter(data); p.grad = p.detach() + 1; "
    "torch.optim.SGD([p], 0.1).step()",
    "the sample itself": "torch.from_dlpack(sample)[0] = 1",
    "a thread": IN_A_THREAD,
    "a forked child": IN_A_FORK,
    "a part when all else is gone": AFTER_ALL_ELSE_IS_GONE,
}


@pytest.fixture
def image(torch: ModuleType) -> object:
    return torch.zeros(1000)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_names_the_topic_and_the_ways_out(
    elsewhere: Elsewhere, image: object, name: str
) -> None:
    with tb.Publisher("camera/image", history=1) as publisher:
        publisher.publish(image)
        errors = ends_by_a_fault(elsewhere.start(write, "camera/image", WRITES[name]))
    assert told(errors, "camera/image"), errors
    for way_out in (
        "tensor.clone()",
        "sample.copy()",
        'access="copy-on-write"',
        'access="shared"',
        "TENSORBUS_FAULT_MESSAGE=0",
    ):
        assert way_out in errors


def test_a_tensor_inside_a_message_names_its_own_topic(
    elsewhere: Elsewhere, torch: ModuleType
) -> None:
    def write_inside(topic: str, other_topic: str) -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with (
            tb.Subscriber(topic, access="read", timeout=PATIENCE) as subscriber,
            tb.Subscriber(other_topic, access="read", timeout=PATIENCE) as other,
        ):
            held = other.receive().data
            data = subscriber.receive().data
            later = other.receive().data
            data["all"][1]["boxes"].add_(1)
            tell((held, later))

    with (
        tb.Publisher("detections/front", history=2) as front,
        tb.Publisher("detections/back", history=2) as back,
    ):
        boxes = back.loan((100,), torch.float32)
        back.publish({"all": [torch.zeros(5), {"boxes": boxes, "n": np.zeros(3)}], "id": 7})
        for _ in range(2):
            front.publish({"all": [torch.zeros(5), {"boxes": torch.zeros(100)}]})
        process = elsewhere.start(write_inside, "detections/back", "detections/front")
        errors = ends_by_a_fault(process)
    assert told(errors, "detections/back"), errors


def test_a_write_after_both_sides_closed_still_names_the_topic(
    elsewhere: Elsewhere, image: object
) -> None:
    def write_late(topic: str) -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with tb.Subscriber(topic, access="read", timeout=PATIENCE) as subscriber:
            data = subscriber.receive().data
        tell("closed")
        input()
        data[0] = 1

    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(image)
        process = elsewhere.start(write_late, "topic")
        assert process.hear() == "closed"
    process.tell("on")
    assert told(ends_by_a_fault(process), "topic")


def test_the_message_can_be_turned_off(elsewhere: Elsewhere, image: object) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(image)
        off = {"TENSORBUS_FAULT_MESSAGE": "0"}
        errors = ends_by_a_fault(elsewhere.start(write, "topic", "data.add_(1)", env=off))
    assert "tensorbus:" not in errors


def test_the_message_comes_before_the_traceback_of_faulthandler(
    elsewhere: Elsewhere, image: object
) -> None:
    enable = "import faulthandler; faulthandler.enable()"
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(image)
        process = elsewhere.start(write, "topic", "data.add_(1)", "read", enable)
        errors = ends_by_a_fault(process)
    assert told(errors, "topic"), errors
    assert 0 <= errors.index(MESSAGE) < errors.index(TRACEBACK)
    assert "in write" in errors, "the line that wrote"


def test_a_fault_that_is_not_ours_has_no_message(elsewhere: Elsewhere, image: object) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(image)
        process = elsewhere.start(write, "topic", "import ctypes; ctypes.memset(8, 0, 1)")
        assert "tensorbus:" not in ends_by_a_fault(process)


def test_a_system_call_fails_instead(elsewhere: Elsewhere, image: object) -> None:
    fill = """
import errno
try:
    with open("/dev/zero", "rb", buffering=0) as file:
        file.readinto(data.numpy())
except OSError as error:
    assert error.errno == errno.EFAULT
else:
    raise AssertionError("it was written")
"""
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(image)
        elsewhere.run(write, "topic", fill)


@pytest.mark.parametrize("access", ["private", "shared"])
def test_who_may_write_hears_nothing(elsewhere: Elsewhere, image: object, access: str) -> None:
    with tb.Publisher("topic", history=1, shared=True) as publisher:
        publisher.publish(image)
        elsewhere.run(write, "topic", "data.add_(1); assert (data == 1).all()", access)


@pytest.mark.parametrize(
    "write_to", ["copy.data", "data.clone()", "sample.copy().data", "data + 1"]
)
def test_who_writes_to_a_copy_hears_nothing(
    elsewhere: Elsewhere, image: object, write_to: str
) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(image)
        elsewhere.run(write, "topic", f"mine = {write_to}; mine.zero_(); mine.numpy()[0] = 1")
