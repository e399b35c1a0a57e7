"""Counts over stored turns and traces: what a day held, how long stages took, what was refused."""

from __future__ import annotations

import sqlite3

from server.access import Seen
from server.store.records import DayCounts

TRACED = 300
"""Traces that stages are timed on, the newest: they are read whole."""


def days(connection: sqlite3.Connection, seen: Seen, collection: str, since: float) -> list[DayCounts]:
    """Each day (UTC) since then that had turns, oldest first."""
    rows = connection.execute(
        "SELECT date(t.created, 'unixepoch') AS day, count(*) AS turns, sum(t.status = 'refused') AS refused, "
        "sum(t.status IN ('failed', 'interrupted')) AS failed, sum(f.rating IS 'down') AS rated_down, "
        "sum(coalesce(json_array_length(t.ending, '$.support'), 0)) AS sentences, "
        "sum((SELECT count(*) FROM json_each(t.ending, '$.support') s "
        "WHERE NOT json_extract(s.value, '$.supported'))) AS unsupported "
        f"FROM turns t LEFT JOIN feedback f ON f.turn_id = t.id WHERE {_WITHIN} AND {seen.on('t')} "
        "GROUP BY day ORDER BY day",
        _values(seen, collection, since),
    )
    return [DayCounts(**row) for row in rows]


def stages(connection: sqlite3.Connection, seen: Seen, collection: str, since: float) -> dict[str, list[float]]:
    """Seconds of each stage of the newest traced turns, in the order stages come in; `turn` is a whole one."""
    newest = (
        f"SELECT r.trace FROM traces r JOIN turns t ON t.id = r.turn_id WHERE {_WITHIN} AND {seen.on('t')} "
        "ORDER BY t.n DESC LIMIT :limit"
    )
    rows = connection.execute(
        "SELECT json_extract(s.value, '$.name'), json_extract(s.value, '$.seconds') "
        f"FROM ({newest}) x, json_each(x.trace, '$.steps') s "
        f"UNION ALL SELECT 'turn', json_extract(x.trace, '$.seconds') FROM ({newest}) x",
        {**_values(seen, collection, since), "limit": TRACED},
    )
    found: dict[str, list[float]] = {}
    for stage, seconds in rows:
        found.setdefault(stage, []).append(seconds)
    return found


def refused(
    connection: sqlite3.Connection, seen: Seen, collection: str, since: float, limit: int
) -> list[tuple[str, str]]:
    """Id and question of the newest turns that found nothing to answer with."""
    rows = connection.execute(
        f"SELECT t.id, t.question FROM turns t WHERE t.status = 'refused' AND {_WITHIN} AND {seen.on('t')} "
        "ORDER BY t.n DESC LIMIT :limit",
        {**_values(seen, collection, since), "limit": limit},
    )
    return [(row["id"], row["question"]) for row in rows]


_WITHIN = "t.created >= :since AND t.status <> 'pending' AND (:collection = '' OR t.collection = :collection)"


def _values(seen: Seen, collection: str, since: float) -> dict[str, object]:
    return {"collection": collection, "since": since, **seen.values}
