"""Services between two machines."""
