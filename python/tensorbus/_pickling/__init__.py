"""Any picklable object as a message, for processes that trust one another."""
