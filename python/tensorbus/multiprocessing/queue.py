"""The names of `torch.multiprocessing.queue`; see `tensorbus.multiprocessing.queues`."""

from tensorbus.multiprocessing.queues import Queue, SimpleQueue

__all__ = ["Queue", "SimpleQueue"]
