"""A database on a server, as commands see it and several servers share it; Ray; and the product without the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli import add_plugin_commands, app
from server.chat.limits import PrincipalLimits
from server.settings import LimitsSettings, Settings
from server.store import Database, StoreError
from testing.plugin import PluginContract
from tests.index.test_workers import docs, written
from tests.index.test_workers import run as index_docs
from tests.installed import ROOT
from tests.several import fleet
from text import modules
from text.modules import PluginError

add_plugin_commands()


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_home_goes_on_with_its_database_on_a_server(
    postgres_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path / "home"))
    assert run("keys", "create", "desk").exit_code == 0
    result = run("move")
    assert result.exit_code != 0
    assert "Say in database.url" in result.stderr
    monkeypatch.setenv("ANAPHORA_DATABASE__URL", postgres_place.replace("anaphora@", "anaphora:geheim@"))
    result = run("move")
    assert result.exit_code == 0, result.stderr
    assert "Copied 2 rows" in result.stderr
    assert "desk" in run("keys", "list").stdout
    assert "not empty" in run("move").stderr
    result = run("backup", str(tmp_path / "b.tar"))
    assert "pg_dump --format=custom" in result.stderr
    report = run("doctor").stdout
    assert "PostgreSQL" in report
    assert "✓ audit log" in report
    assert run("restore", str(tmp_path / "b.tar"), "--yes").exit_code == 0
    assert "desk" in run("keys", "list").stdout
    everything = result.stderr + report + run("config").stdout + run("config", "--json").stdout
    assert "geheim" not in everything
    monkeypatch.setenv("ANAPHORA_DATABASE__URL", "postgresql://anaphora:geheim@127.0.0.1:1/anaphora")
    for words in (("keys", "list"), ("doctor",)):
        result = run(*words)
        assert result.exit_code != 0
        assert "cannot be reached" in result.output
        assert "geheim" not in result.output


class TestScale(PluginContract):
    name = "scale"

    def test_without_it_a_database_on_a_server_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(modules, "plugins", lambda group: {})
        with pytest.raises(StoreError, match=r"No installed plugin opens postgresql://.*extra `postgres`"):
            Database("postgresql://me@127.0.0.1/anaphora")
        with pytest.raises(PluginError, match="no counter 'redis'"):
            PrincipalLimits(LimitsSettings(requests_per_minute=1, store="redis://127.0.0.1"))


__all__ = ["docs"]

INDEX = """
import sys
from pathlib import Path
from index.indexer import index_paths
from plugins.scale.ray_workers import RayWorkers
from tests.encoder import WordEncoder
with RayWorkers() as workers:
    index_paths(Path(sys.argv[1]), "docs", [Path(sys.argv[2])], WordEncoder(), workers=workers)
"""


@pytest.mark.extended
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed (extra `ray`)")
def test_ray_writes_what_one_process_writes(tmp_path: Path, docs: Path) -> None:
    index_docs(tmp_path / "alone", docs)
    command = [sys.executable, "-P", "-c", INDEX, str(tmp_path / "shared"), str(docs)]
    # The encoder is of the tests, which are not installed.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path / "shared") == written(tmp_path / "alone")


@pytest.mark.extended
def test_killed_servers_lose_no_acknowledged_turn(
    tmp_path: Path, documents: Path, llm: Any, postgres_place: str
) -> None:
    from index.indexer import index_paths
    from tests.encoder import WordEncoder

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
