"""Tensors and arrays of the libraries over memory of the bus; no library is imported early."""
