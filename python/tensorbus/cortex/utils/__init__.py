"""What programs are run with."""
