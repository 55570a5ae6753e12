"""Publishing and receiving: publishers, subscribers, samples, and the list of who is there."""
