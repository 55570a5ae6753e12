"""`torch.multiprocessing.queue`'s names; see `tensorbus.multiprocessing.queues`."""

from tensorbus.multiprocessing.queues import Queue, SimpleQueue

__all__ = ["Queue", "SimpleQueue"]
