"""A cross-encoder that reads conversations, as a family of the one training stack; serving is `index.rerank`'s."""
