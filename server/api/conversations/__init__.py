"""`/v1/conversations`: conversations kept on the server, and turns in them as typed events."""
