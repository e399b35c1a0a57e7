"""The record of the plugin, and the product without it."""

from __future__ import annotations

import pytest

from server.chat.limits import PrincipalLimits
from server.settings import LimitsSettings
from server.store import Database, StoreError
from testing.plugin import PluginContract
from text import modules
from text.modules import PluginError


class TestScale(PluginContract):
    name = "scale"

    def test_without_it_a_database_on_a_server_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(modules, "plugins", lambda group: {})
        with pytest.raises(StoreError, match=r"No installed plugin opens postgresql://.*extra `postgres`"):
            Database("postgresql://me@127.0.0.1/anaphora")
        with pytest.raises(PluginError, match="no counter 'redis'"):
            PrincipalLimits(LimitsSettings(requests_per_minute=1, store="redis://127.0.0.1"))
