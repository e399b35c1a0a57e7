"""The chat widget in sites that MkDocs and Sphinx build."""

from __future__ import annotations

import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from anaphora_client.widget import ATTRIBUTES, widget_address

CLIENT = Path(__file__).parents[2] / "client"
ATTRIBUTE = {"collection": "docs", "where": {"version": "2"}, "color": "#7a1f5c"}
ADDRESS = widget_address("https://chat.example.org", "KEY", ATTRIBUTE)
MKDOCS = """site_name: Towers
docs_dir: {folder}/docs
site_dir: {folder}/out
plugins:
  - anaphora: {{server: https://chat.example.org, key: {key}, attributes: {attributes}}}
"""
SPHINX = """extensions = ["anaphora_client.sphinx"]
anaphora = {{"server": "https://chat.example.org", "key": "{key}", "attributes": {attributes}}}
"""


def test_an_address_has_the_key_and_known_attributes_alone() -> None:
    assert ADDRESS == (
        "https://chat.example.org/widget.js?key=KEY&collection=docs&where=%7B%22version%22%3A+%222%22%7D"
        "&color=%237a1f5c"
    )
    for wrong in (("chat.example.org", "KEY"), ("https://chat.example.org", "")):
        with pytest.raises(ValueError, match="a `server`"):
            widget_address(*wrong)
    with pytest.raises(ValueError, match="has no attribute colour"):
        widget_address("https://chat.example.org", "KEY", {"colour": "red"})


def test_the_attributes_are_those_of_the_script_and_of_its_page() -> None:
    pytest.importorskip("plugins.widget")
    folder = CLIENT.parent / "plugins" / "widget"
    script, readme = ((folder / name).read_text("utf-8") for name in ("widget.js", "README.md"))
    assert all(f"given.{name}" in script and f"`data-{name}`" in readme for name in ATTRIBUTES)


def build(tool: str, folder: Path, *, key: str = "KEY", attributes: object = ATTRIBUTE) -> str:
    """Build a site of one page with a tool; return its HTML, or what the tool complains of."""
    pytest.importorskip(tool)
    (folder / "docs").mkdir(exist_ok=True)
    values = {"folder": folder, "key": key, "attributes": attributes}
    if tool == "mkdocs":
        (folder / "docs" / "index.md").write_text("# Towers\n", "utf-8")
        (folder / "mkdocs.yml").write_text(MKDOCS.format(**values), "utf-8")
        # The entry point is there once the client is installed.
        code = f"import sys; sys.path.insert(0, {str(CLIENT)!r}); import mkdocs.plugins as p, importlib.metadata as m; "
        code += "p.get_plugins = lambda: {'anaphora': m.EntryPoint('anaphora', 'anaphora_client.mkdocs:WidgetPlugin', 'mkdocs.plugins')}; "  # noqa: E501
        code += "from mkdocs.__main__ import cli; cli()"
        command = [sys.executable, "-c", code, "build", "-q", "-f", str(folder / "mkdocs.yml")]
    else:
        (folder / "docs" / "index.rst").write_text("Towers\n======\n", "utf-8")
        (folder / "docs" / "conf.py").write_text(SPHINX.format(**values), "utf-8")
        code = f"import sys; sys.path.insert(0, {str(CLIENT)!r}); from sphinx.cmd.build import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "-q", str(folder / "docs"), str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return unescape((folder / "out" / "index.html").read_text("utf-8")) if not done.returncode else done.stderr


@pytest.mark.extended
@pytest.mark.parametrize("tool", ["mkdocs", "sphinx"])
def test_a_built_site_loads_the_script_and_wrong_options_stop_the_build(tool: str, tmp_path: Path) -> None:
    assert f'src="{ADDRESS}"' in build(tool, tmp_path)
    assert "has no attribute colour" in build(tool, tmp_path, attributes={"colour": "red"})
