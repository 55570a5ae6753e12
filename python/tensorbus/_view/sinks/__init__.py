"""Sinks: they pass the messages of a domain to other viewers (Rerun, Foxglove)."""
