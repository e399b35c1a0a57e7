"""Whose the rows of a test are, and who sees them, where neither matters."""

from __future__ import annotations

from server.access import DEFAULT_GROUP, LOCAL, Whose

ALL = LOCAL
MINE = Whose(LOCAL.id, DEFAULT_GROUP)
