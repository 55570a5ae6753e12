"""Recording of topics to files, and reading and playing of these files."""
