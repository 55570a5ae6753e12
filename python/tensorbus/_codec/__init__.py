"""A message as tensors beside MessagePack, and back: what travels, and how it is taken apart."""
