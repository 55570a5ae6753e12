"""What of the public names program.py leaves out, as a user writes it: for type checkers alone."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Literal

import numpy as np
import torch

import tensorbus as tb
import tensorbus.doctor
import tensorbus.messages
import tensorbus.multiprocessing as mp


def who_is_there() -> list[str]:
    topics: list[tb.TopicInfo] = tb.list_topics()
    publishers: list[tb.PublisherInfo] = [one for topic in topics for one in topic.publishers]
    nodes: list[tb.NodeInfo] = tb.list_nodes()
    if tb.wait_for_topic("image", timeout=1) and tb.wait_for_node("camera", timeout=1):
        return [one.topic for one in publishers] + [node.name for node in nodes]
    return [message for topic in topics for message in topic.types]


def share(image: tb.Memory) -> str:
    allocated: Any = tb.empty((2, 3), np.float32, shared=True)
    with tb.share({"image": image, "mask": allocated}, uses=1, ttl=60) as shared:
        kept: tb.Shared = shared
        handle: tb.Handle = kept.handle
        again = tb.Handle(str(handle))
        found: Any = tb.attach(again.to_dict(), access="read", timeout=1)
        shape: tuple[int, ...] = image.shape
        print(found, again == handle, shape, image.strides, bytes(handle), again.owner)
    model = torch.nn.Linear(2, 3)
    tb.load_state_dict(model, handle, strict=False)
    return str(handle)


async def queues() -> tb.QueueStats:
    with tb.Queue(maxsize=8, name="jobs", redeliver=True) as queue:
        queue.put({"id": 7}, timeout=1)
        item: Any = queue.get(timeout=1)
        queue.task_done()
        await queue.put_async(item)
        async for item in tb.Queue.open(queue.address, timeout=1):
            print(item)
        reopened: tb.Queue[Any] = await tb.Queue.open_async("jobs", reopen=True)
        await reopened.put_async(item)
        return queue.stats


def work(number: int) -> int:
    return number + 1


def pools() -> list[int]:
    with tb.WorkerPool(work, workers=2, retries=1) as pool:
        future: Future[Any] = pool.submit(1)
        pool.resize(3)
        stats: tb.PoolStats = pool.stats
        print(pool.ready(timeout=1.0), stats.waiting, stats["mean_run"])
        results: list[int] = pool.map([1, 2], progress=None)
        for result in pool.imap_unordered(range(3)):
            results.append(result)
        return [*results, future.result(timeout=1)]


def standard_messages() -> list[tb.Message]:
    rows = np.zeros((2, 3))
    return [
        tb.StringMessage("text"),
        tb.IntMessage(1),
        tb.FloatMessage(0.5),
        tb.BytesMessage(b""),
        tb.DictMessage({"a": rows}),
        tb.ListMessage([rows]),
        tb.ArrayMessage(rows, name="rows"),
        tb.MultiArrayMessage({"rows": rows}),
        tb.TensorMessage(torch.ones(2)),
        tb.MultiTensorMessage({"ones": torch.ones(2)}),
        tb.PointCloudMessage(rows),
        tb.PoseMessage(rows[0], np.ones(4)),
        tb.TransformMessage(np.eye(4)),
        tb.TimestampMessage.now(),
        tb.HeaderMessage(0, 0, "map"),
    ]


def header_of(data: bytes) -> tuple[tb.MessageHeader, str | None]:
    message, header = tb.Message.decode(data)
    return header, tensorbus.messages.compatible(message.definition(), "other")


class Camera(tb.Node):
    def __init__(self) -> None:
        super().__init__("camera")
        self.rate: tb.Parameter = self.declare_parameter("rate", 30.0)
        self.ticks: tb.Timer = self.create_timer(0.1, lambda: None)
        self.answers: tb.Service = self.create_service("ask", None, None, self.answer)
        self.images: tb.Subscription = self.create_subscriber("image", callback=print)

    def answer(self, request: Any) -> Any:
        return request


def executors() -> tuple[tb.AsyncExecutor, tb.SyncRateExecutor]:
    return tb.AsyncExecutor(print), tb.SyncRateExecutor(10, print)


def memory_of(said: tb.ParticipantReport) -> int:
    report: tb.MemoryReport | None = said.memory
    if report is None:
        return 0
    lent: tuple[tb.LentReport, ...] = report.lent
    borrowed: tuple[tb.BorrowedReport, ...] = report.borrowed
    devices: tuple[tb.DeviceReport, ...] = report.devices
    shares: tuple[tb.ShareReport, ...] = said.shares
    used = [*(one.bytes for one in lent), *(one.bytes for one in borrowed)]
    return sum(used) + sum(one.bytes for one in shares) + len(devices)


def holders(said: tb.ParticipantReport) -> list[tb.PeerName]:
    publishers: tuple[tb.PublisherReport, ...] = said.publishers
    links: list[tb.LinkReport] = [link for one in publishers for link in one.links]
    queues: tuple[tb.QueueReport, ...] = said.queues
    clients: list[tb.QueueClientReport] = [client for one in queues for client in one.clients]
    subscribers: tuple[tb.SubscriberReport, ...] = said.subscribers
    print(len(subscribers))
    return [*(link.subscriber for link in links), *(one.client for one in clients)]


def fastest() -> float:
    before: tb.Inspection = tb.inspect()
    found: list[tb.PublisherRate] = tb.rates(before, tb.inspect(timeout=0.5))
    return max(rate.hz for rate in found)


def born() -> int:
    with tb.allocate(min_bytes=4096):
        pass
    tb.allocate.enable(domain="d")
    tb.allocate.disable()
    stats: tb.AllocateStats = tb.allocate.stats()
    return stats.arrays + stats.bytes + stats.born + stats.elsewhere


def can_share() -> Literal["yes"] | str | None:
    report: tensorbus.doctor.Report = tensorbus.doctor.examine()
    return "yes" if report.host.can_share else report.host.pidfd.why_not


def with_multiprocessing() -> bool:
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    worker = mp.Process(target=print, args=(queue, done))
    worker.start()
    queue.put(torch.ones(3))
    mp.set_ttl(mp.get_ttl() + 1)
    started: mp.ProcessContext | None = mp.spawn(print, args=(1,), nprocs=2, join=False)
    try:
        return started is None or started.join(timeout=1)
    except (mp.ProcessRaisedException, mp.ProcessExitedException) as error:
        print(error.error_index, error.error_pid, mp.is_shared(torch.ones(3)))
        return False


def what_went_wrong(error: tb.Error) -> str:
    match error:
        case tb.InvalidArgument() | tb.Unsupported() | tb.MessageError() | tb.TypeMismatch():
            return "ours"
        case tb.OutOfMemory() | tb.SystemCallError() | tb.AccessDenied():
            return "the system's"
        case tb.ProtocolError() | tb.VersionMismatch() | tb.ServiceError() | tb.WorkerDied():
            return "theirs"
        case tb.RunTimeout() | tb.Refused():
            return "the callback's"
        case tb.Forked():
            return "the fork's"
        case _:
            return str(error)
