"""Stand-ins and suites for the tests of those who build on Anaphora; nothing of it is used while it serves.

`encoder`: vectors without a model. `chat_model`: a LangChain chat model that says what it is told. `openai_server`: the
same on a real port, for what speaks HTTP. `vector_store`: what every vector store must do, as a suite
to inherit.
"""
