"""A cross-encoder that reads conversations: rows, training, packing."""
