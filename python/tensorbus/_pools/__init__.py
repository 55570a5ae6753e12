"""Worker pools: a function in many processes."""
