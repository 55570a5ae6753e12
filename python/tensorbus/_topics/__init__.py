"""Topics: publishers, subscribers, samples, and the lists of topics and nodes."""
