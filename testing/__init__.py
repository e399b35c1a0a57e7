"""Contract suites for the tests of those who extend Anaphora; nothing of it is used while it serves.

`plugin`: what every plugin must do, and `vector_store`: what every vector store must do, as suites to inherit.
"""
