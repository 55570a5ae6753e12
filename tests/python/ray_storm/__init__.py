"""Kills Ray's actors at random moments, and looks at what the others have."""
