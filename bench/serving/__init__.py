"""A web server with a model, with the bus and without it, and the clients that load it."""
