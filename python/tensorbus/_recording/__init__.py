"""Recording topics to a file, and reading it."""
