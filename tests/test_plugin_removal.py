"""Without the folder and the entry points of any one plugin the rest keeps its routes; without all it answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PLUGINS = sorted(path.parent.name for path in (REPOSITORY / "plugins").glob("*/__init__.py"))

# Imports the product once, then forks for each plugin and for all: the child hides them and reports what is left.
REMOVE_EACH = """
import asyncio, contextlib, gc, io, json, os, pkgutil, sys, traceback
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

home, model_home, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
for room in ("text", "index", "rewriter", "synth", "server", "evaluation", "ui", "cli"):
    for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
loaded = sorted(name for name in sys.modules if name.startswith("plugins."))

import text.modules
from cli import main
from server.api.app import ROUTERS
from server.chat import DoneEvent, TurnRequest, open_service
from server.plugins import installed_plugins, parts, resolve
from tests.serving import make_settings


def package_of(module):
    return ".".join(module.split(".")[:2])


class Hidden:
    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        if package_of(name) in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


async def answer(settings):
    async with open_service(settings, warm=False) as service:
        request = TurnRequest(question="How long does parental leave last?", collection="docs")
        async for event in service.turns.ask(request):
            if isinstance(event, DoneEvent):
                return event.answer


def report(*hidden):
    packages = {f"plugins.{name}" for name in hidden}
    sys.meta_path.insert(0, Hidden(packages))
    text.modules.entry_points = lambda group: [
        entry for entry in entry_points(group=group) if package_of(entry.module) not in packages
    ]
    if len(hidden) > 1:
        return {"answer": asyncio.run(answer(make_settings(home, model_home, "none")))}
    found = {"paths": [route.path_format for router in (*ROUTERS, *parts("routers")) for route in router.routes]}
    if not hidden:
        records = {plugin.name: plugin for plugin in installed_plugins().values()}
        found["own"] = {
            key: [route.path_format for place in plugin.routers for route in resolve(plugin, place).routes]
            for key, plugin in records.items()
        }
        found["commands"] = {key: list(plugin.commands) for key, plugin in records.items()}
        return found
    help_text, sys.argv = io.StringIO(), ["anaphora", "--help"]
    with contextlib.redirect_stdout(help_text), contextlib.suppress(SystemExit):
        main()
    return {**found, "help": help_text.getvalue()}


print(json.dumps(loaded), flush=True)
gc.freeze()
for hidden in ((), *((name,) for name in names), names):
    if (child := os.fork()) == 0:
        try:
            print(json.dumps(report(*hidden)), flush=True)
        except BaseException:
            print(json.dumps({"error": traceback.format_exc()}), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def reports(indexed_home: Path, model_home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Modules of plugins that the product imports; reports with every plugin, without one of them each, without any."""
    home = tmp_path_factory.mktemp("removed") / "home"
    shutil.copytree(indexed_home, home)
    command = [sys.executable, "-c", REMOVE_EACH, str(home), str(model_home), *PLUGINS]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.extended
def test_the_product_imports_no_plugin(reports: list[object]) -> None:
    assert reports[0] == []


@pytest.mark.extended
@pytest.mark.parametrize("name", PLUGINS)
def test_without_a_plugin_the_rest_keeps_its_routes_and_helps(reports: list[dict], name: str) -> None:
    whole, rest = reports[1], reports[2 + PLUGINS.index(name)]
    assert "error" not in rest, rest["error"]
    assert set(whole["paths"]) - set(rest["paths"]) == set(whole["own"][name])
    assert "serve" in rest["help"]
    assert not any(f" {command} " in rest["help"] for command in whole["commands"][name])


@pytest.mark.extended
def test_without_any_plugin_a_question_is_answered(reports: list[dict]) -> None:
    assert "error" not in reports[-1], reports[-1]["error"]
    assert "ten weeks" in reports[-1]["answer"]
