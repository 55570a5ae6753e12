"""What the participants of a domain say of themselves."""
