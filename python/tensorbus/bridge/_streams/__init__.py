"""Streams and channels: ordered delivery, exactly once, with flow control."""
