"""Messages of any object that can be pickled, for processes that trust one another."""
