"""Queues between two machines."""
