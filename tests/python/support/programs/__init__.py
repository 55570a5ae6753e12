"""Programs of the examples and of the pages, built and run."""
