"""Tensors of PyTorch, NumPy and JAX over memory of the bus; each is imported on first use."""
