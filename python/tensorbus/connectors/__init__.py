"""Connectors: each connects the bus with another package. Nothing else imports them."""
