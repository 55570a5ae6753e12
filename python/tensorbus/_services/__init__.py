"""Request and reply: services, their clients, and what is said between them."""
