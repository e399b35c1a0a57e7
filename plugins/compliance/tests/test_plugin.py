"""The record of the plugin, and the product without it."""

from __future__ import annotations

from pathlib import Path

from server.access import LOCAL
from server.audit_log import account, entry, note
from server.store import Database
from testing.plugin import PluginContract


class TestCompliance(PluginContract):
    name = "compliance"

    def test_without_it_nothing_is_audited_and_nothing_breaks(self, removed: None, tmp_path: Path) -> None:
        database = Database(tmp_path / "anaphora.db")
        note(database, LOCAL, "turn.ask")
        database.write_blocking(account, entry(LOCAL, "grant.add", "sales"))
        tables = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'audit%'"
        assert database.read_blocking(lambda c: c.exec_driver_sql(tables).scalar_one()) == 0
        database.close()
