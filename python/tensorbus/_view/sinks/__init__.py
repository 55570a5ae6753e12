"""The messages of a domain for the viewers of others."""
