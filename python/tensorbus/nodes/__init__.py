"""Nodes: callbacks on topics, timers and services. See docs/nodes.md."""

from tensorbus._services.client import Client
from tensorbus._services.service import Service
from tensorbus.nodes._executor import AsyncExecutor, RateExecutor, SyncRateExecutor
from tensorbus.nodes._node import Node
from tensorbus.nodes._parameters import Parameter
from tensorbus.nodes._run import run
from tensorbus.nodes._subscription import Subscription
from tensorbus.nodes._timer import Timer

__all__ = [
    "AsyncExecutor",
    "Client",
    "Node",
    "Parameter",
    "RateExecutor",
    "Service",
    "Subscription",
    "SyncRateExecutor",
    "Timer",
    "run",
]
