"""Tensors over mapped files."""
