"""Kills recorders and players at random moments, and looks at what the others have."""
