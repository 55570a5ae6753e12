"""Streams and channels: what arrives exactly once, in order, as far as there is room."""
