"""Frames and the connections that carry them."""
