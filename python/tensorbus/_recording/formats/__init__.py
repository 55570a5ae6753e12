"""Formats of exports: each writes the messages of one topic to files in its folder."""
