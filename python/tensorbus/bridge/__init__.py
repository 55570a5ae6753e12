"""Connects the topics, queues and services of several machines (docs/bridge.md)."""

from tensorbus.bridge._bridge import Bridge
from tensorbus.bridge._config import BridgeConfig, Tls, load
from tensorbus.bridge._rules import Direction, Rules, TopicRule

__all__ = ["Bridge", "BridgeConfig", "Direction", "Rules", "Tls", "TopicRule", "load"]
