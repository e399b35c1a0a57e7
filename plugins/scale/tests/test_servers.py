"""Several servers on one home and one PostgreSQL database: nothing is lost when some of them are killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.settings import Settings
from tests.several import fleet


@pytest.mark.extended
def test_killed_servers_lose_no_acknowledged_turn(
    tmp_path: Path, documents: Path, llm: Any, postgres_place: str
) -> None:
    from index.indexer import index_paths
    from testing.encoder import WordEncoder

    llm.pace = 0.05
    settings = Settings(
        home=tmp_path / "home",
        index={"encoder": "words"},
        retrieval={"rerank": "never"},
        rewriter={"kind": "none"},
        llm={"model": llm.url},
        server={"port": 0, "concurrent_turns": 16},
        database={"url": postgres_place},
    )
    index_paths(settings.home / "collections", "docs", [documents], WordEncoder())
    with fleet(settings, 3) as servers:
        for _ in range(20):
            servers.run(1.6, people=3, kill_every=0.8)
            if servers.broken and servers.answers:
                break
        assert servers.kills
        assert servers.answers
        assert servers.silent == []
        assert servers.lost() == []
        assert servers.ask_again() == []
        assert servers.broken, "no stream was cut off"
