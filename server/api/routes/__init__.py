"""One module for each kind of thing the API shows; `server.api.app` puts their routers together."""

from server.api.routes import (
    collections,
    conversations,
    feedback,
    jobs,
    keys,
    models,
    reviews,
    runs,
    search,
    statistics,
)

ROUTERS = [
    module.router
    for module in (
        *(models, search, conversations, feedback, reviews, collections),
        *(jobs, runs, statistics, keys),
    )
]
"""In the order in which the description lists them; where the server lives, and what it counts, comes last."""
