"""Sharing tensors by handle."""
