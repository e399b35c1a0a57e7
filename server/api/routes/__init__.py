"""One module for each kind of thing the API shows; `server.api.app` puts their routers together."""

from server.api.routes import conversations, documents, openai, operations, workbench

ROUTERS = [
    *(openai.router, conversations.search_router, conversations.router, conversations.feedback_router),
    *(workbench.router, documents.router, documents.jobs_router, workbench.runs_router),
    *(operations.keys_router, documents.grants_router),
]
"""In the order in which the description lists them."""

OPERATIONS = operations.router
"""Where the server lives, and what it counts."""
