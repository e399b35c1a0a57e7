"""`/v1/search`: what a turn would be given to read, without an answer."""
