"""Files of other programs that run a pipeline as its own file says."""
