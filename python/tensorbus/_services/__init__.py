"""Request and reply: services, their clients, and the messages between them."""
