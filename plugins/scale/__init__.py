"""Scale: several servers and machines share a database, counters and the work of indexing.

PostgreSQL (`database.url`), Redis (`limits.store`) and Ray (`anaphora index --on ray`) are found by the entry points
`anaphora.databases`, `anaphora.counters` and `anaphora.workers`.
"""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="scale",
    summary="Share PostgreSQL, Redis and Ray among several servers.",
    commands={"move": "plugins.scale.move:app"},
)
