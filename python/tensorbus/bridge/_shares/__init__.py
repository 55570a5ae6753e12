"""Shares between two machines."""
