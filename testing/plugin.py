"""The tests that every plugin must pass. Inherit them in the plugin's own tests:

class TestHello(PluginContract):
    name = "hello"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

from server.plugins import GROUP, Plugin, installed_plugins, parts
from text import modules


class PluginContract:
    """Check a plugin's record and its folder, and that the product works without it."""

    name: str
    """The plugin's entry point."""

    @pytest.fixture
    def plugin(self) -> Plugin:
        """The record under test."""
        return installed_plugins()[self.name]

    @pytest.fixture
    def removed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Hide the plugin, as if its folder and entry point were deleted."""
        others = {name: entry for name, entry in modules.plugins(GROUP).items() if name != self.name}
        monkeypatch.setattr("server.plugins.plugins", lambda group: others)
        installed_plugins.cache_clear()
        yield
        installed_plugins.cache_clear()

    def test_every_part_of_the_record_can_be_loaded(self, plugin: Plugin) -> None:
        assert plugin.summary.endswith(".")
        for place in (*plugin.routers, *plugin.pages, *plugin.commands.values()):
            assert resolve_name(place) is not None
        assert plugin.shared_paths | plugin.framed_paths <= plugin.public_paths

    def test_settings_have_defaults_and_descriptions(self, plugin: Plugin) -> None:
        if plugin.settings is not None:
            model = resolve_name(plugin.settings)
            assert model() is not None
            assert all(field.description for field in model.model_fields.values())

    def test_the_folder_holds_a_page_and_tests(self) -> None:
        folder = Path(str(resolve_name(f"plugins.{self.name}").__file__)).parent
        assert (folder / "README.md").read_text("utf-8").startswith("# ")
        assert list((folder / "tests").glob("test_*.py"))

    def test_without_the_plugin_its_settings_are_refused_and_its_paths_are_gone(
        self, removed: None, tmp_path: Path
    ) -> None:
        from server.api.app import ROUTERS
        from server.settings import Settings

        assert self.name not in installed_plugins()
        assert self.name not in Settings(home=tmp_path).plugins
        with pytest.raises(ValueError, match="there is no plugin"):
            Settings(home=tmp_path, plugins={self.name: {}})
        paths = [route.path for router in (*ROUTERS, *parts("routers")) for route in router.routes]
        assert not any(f"/{self.name}/" in path for path in paths)

    def test_the_product_imports_nothing_of_it(self) -> None:
        root = Path(str(resolve_name("server").__file__)).parents[1]
        own = re.compile(rf"^\s*(?:from|import) plugins\.{self.name}\b", re.MULTILINE)
        for room in ("server", "ui", "cli", "index", "rewriter", "synth", "evaluation", "text", "testing"):
            for module in (root / room).rglob("*.py"):
                assert not own.search(module.read_text("utf-8")), f"{module.relative_to(root)} imports the plugin"
