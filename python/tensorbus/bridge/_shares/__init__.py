"""Shares of another machine."""
