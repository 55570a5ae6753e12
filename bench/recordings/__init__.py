"""What the benchmark of recordings compares with, and what it reads."""
