"""A Ray instance for the tests of a file."""
