"""Plugins: optional features, one folder each, found by entry point.

A plugin declares a `Plugin` record in the group `anaphora.plugins`. The record names the parts by `module:object`, so
that nothing heavy is imported before it is used. Deleting the folder and its entry point removes the feature.
`testing.plugin.PluginContract` holds the tests that every plugin must pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pkgutil import resolve_name
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from text.modules import PluginError, load_plugin, plugins

GROUP = "anaphora.plugins"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """The parts of a plugin; every part is optional.

    `settings` names a pydantic model, which becomes the table `[plugins.NAME]`. `routers` are FastAPI routers behind
    the server's own checks. `pages` are functions `(app, service) -> None` that add routes of the page. `commands` are
    typer applications by name. `page_calls` are async functions that the page's scripts may call by name: `(service,
    **members) -> {...}`. `workbench` names the plugin's part of a tab: the files NAME.html and NAME.js of a package,
    as "package:NAME". `tasks` are async functions `(service) -> None` that run as long as a server does.
    `job_services` are subclasses of `CollectionService` whose `_work_` methods do jobs, in workers too.
    `document_folders` are functions `(home, collection) -> [folder]` that return where a plugin keeps documents of a
    collection, and `delete_documents` are functions `(home, collection) -> None` that delete those with the collection.
    `public_paths` need no key; of these, `shared_paths` may be loaded by pages of other origins, and `framed_paths` set
    their own policy on who may frame them. `authenticators` make a `server.api.security.Authenticator`
    of the settings, or None while they are off. `checks` are functions `(settings) -> findings` that `anaphora doctor`
    runs. `tables` are `server.store.schema.TableGroup`s. `audit_logs` are functions `(connection, *entries)` that keep
    entries of `server.access`. `answerers` make a `server.turn.run.Answerer` of `(core)`, or None while they are off.
    `replies`
    make a function `(text) -> reply` of `(core)`, or None while they are off, for messages that need no search; its
    reply to others is empty. `standing_messages` are texts that a button of the page and of the widget sends any time.
    `turn_parts` are async functions `(service, turn_id) -> Markup` of what stands below the last turn of the page; a
    button in it with `data-action="call"` makes the page call `data-call` with the fields of the `data-form` around it,
    in whose place the call's `html` stands then. `visitor_calls` names those page calls that visitors of a web site may
    make, too; with one, the plugin's `turn_parts` stand below their turns.
    A key of the role `visitor` reaches what is below `visitor_paths`, and nothing else.

        >>> Plugin(name="hello", summary="Say hello.", commands={"hello": "plugins.hello.command:app"})
    """

    name: str
    summary: str
    settings: str | None = None
    routers: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    page_calls: Mapping[str, str] = field(default_factory=dict)
    workbench: Mapping[str, str] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    job_services: tuple[str, ...] = ()
    document_folders: tuple[str, ...] = ()
    delete_documents: tuple[str, ...] = ()
    public_paths: frozenset[str] = frozenset()
    shared_paths: frozenset[str] = frozenset()
    framed_paths: frozenset[str] = frozenset()
    authenticators: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    audit_logs: tuple[str, ...] = ()
    turn_parts: tuple[str, ...] = ()
    answerers: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    standing_messages: tuple[str, ...] = ()
    visitor_calls: frozenset[str] = frozenset()
    visitor_paths: frozenset[str] = frozenset()


class SettingsGroup(BaseModel):
    """A table of the settings: frozen, and nothing in it that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def signs_in(self) -> bool:
        """Whether these settings of a plugin let people sign in without a key."""
        return False

    @property
    def keeps_questions(self) -> bool:
        """Whether these settings of a plugin want people's questions in the audit log."""
        return False


@cache
def installed_plugins() -> Mapping[str, Plugin]:
    """Return the installed plugins by name, in alphabetical order.

    Raises PluginError for an entry point that cannot be loaded or is no `Plugin` of that name.
    """
    found_plugins = {}
    for name in sorted(plugins(GROUP)):
        record = load_plugin(GROUP, name, kind="plugin")
        if not isinstance(record, Plugin) or record.name != name:
            raise PluginError(f"The plugin {name!r} declares no Plugin record of that name. Update or uninstall it.")
        found_plugins[name] = record
    return found_plugins


def resolve(plugin: Plugin, place: str) -> Any:
    """Return the object at `place` ("module:object"). Raises PluginError."""
    try:
        return resolve_name(place)
    except (ImportError, AttributeError) as error:
        raise PluginError(
            f"The plugin {plugin.name!r} cannot load {place} ({error}). Update or uninstall it."
        ) from error


def parts(kind: str) -> list[Any]:
    """Return the loaded objects of one part ("routers", "pages" and so on) of every plugin. Raises PluginError."""
    return [resolve(plugin, place) for plugin in installed_plugins().values() for place in getattr(plugin, kind)]


def page_calls() -> Mapping[str, str]:
    """Return the page calls of all plugins, by name."""
    return {name: place for plugin in installed_plugins().values() for name, place in plugin.page_calls.items()}


def switched_on(settings: Mapping[str, Any]) -> list[Plugin]:
    """Return the plugins but those whose settings, here by plugin name, say that they are not `enabled`."""
    installed = installed_plugins()
    return [plugin for name, plugin in installed.items() if getattr(settings.get(name), "enabled", True)]


def standing_messages(settings: Mapping[str, Any]) -> list[str]:
    """Return the messages, in English, that plugins which are switched on let people send with a button."""
    return [text for plugin in switched_on(settings) for text in plugin.standing_messages]


def workbench_files(tab: str, suffix: str, settings: Mapping[str, Any]) -> str:
    """Return what plugins add to the template (".html") or the script (".js") of a tab of the workbench."""
    places = (plugin.workbench[tab].split(":") for plugin in switched_on(settings) if tab in plugin.workbench)
    return "".join((files(package) / f"{name}{suffix}").read_text("utf-8") for package, name in places)


def paths(kind: str) -> frozenset[str]:
    """Return the union of one set of paths, such as "public_paths", over all plugins."""
    return frozenset().union(*(getattr(plugin, kind) for plugin in installed_plugins().values()))


def parse_settings(tables: Mapping[str, Any]) -> dict[str, BaseModel]:
    """Return the settings of every installed plugin that has any, read from `tables` by plugin name.

    Values from the environment are texts; those of lists and tables are read as JSON. Raises ValueError; that of a
    wrong value names the plugin and the setting.
    """
    models = {name: plugin for name, plugin in installed_plugins().items() if plugin.settings}
    for name in tables:
        if name not in models:
            raise ValueError(f"there is no plugin {name!r} with settings; there are: {', '.join(models) or 'none'}")
    parsed = {}
    for name, plugin in models.items():
        model = resolve(plugin, str(plugin.settings))
        table = tables.get(name, {})
        try:
            parsed[name] = table if isinstance(table, model) else model(**_decoded(name, model, table))
        except ValidationError as error:
            errors: list[Any] = [{**item, "loc": (name, *item["loc"])} for item in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, errors) from error
    return parsed


def _decoded(plugin: str, model: type[BaseModel], table: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for name, value in table.items():
        text = name in model.model_fields and model.model_fields[name].annotation in (str, SecretStr)
        if isinstance(value, str) and value[:1] in ("[", "{") and not text:
            try:
                value = json.loads(value)
            except ValueError as error:
                raise ValueError(f"{plugin}.{name} is no JSON: {error}") from error
        values[name] = value
    return values
