"""Topics between two machines."""
