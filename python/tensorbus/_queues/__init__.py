"""Queues between processes."""
