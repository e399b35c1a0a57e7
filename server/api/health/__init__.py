"""`/health`, `/ready`, `/metrics`: for whoever looks after the server."""
