"""The commands of `tensorbus topic`."""
