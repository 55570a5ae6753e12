"""Tensorbus inside Ray: `tensorbus.ray.register()`, see `tensorbus.connectors.ray`."""

from tensorbus.connectors.ray import register as register
