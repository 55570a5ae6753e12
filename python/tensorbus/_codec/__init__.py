"""Encoding of messages: tensors, and MessagePack for all other values."""
