"""Waiting in event loops and threads: for descriptors, and for callbacks of users."""
