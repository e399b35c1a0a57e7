"""Reference of the settings, read from their classes: names, defaults, limits, and the origin of each value.

`anaphora config` shows it and `docs/operate/configuration.md` is written from it. This module prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from text.sanitize import without_credentials

if TYPE_CHECKING:
    from server.settings import Settings

MARK = "<!-- What follows is written by `anaphora config docs`. -->\n"
HOME_DEFAULT = "the platform's data folder, such as `~/.local/share/anaphora`"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One leaf of the settings; `path` is `("llm", "model")` for `llm.model`.

    `default` is the value it has when nothing sets it, which a group may choose for its members.
    """

    path: tuple[str, ...]
    field: FieldInfo
    description: str
    default: object

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "ANAPHORA_" + "__".join(self.path).upper()


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting with its value as text and the source it came from."""

    setting: SettingRow
    value: str
    source: str


def leaves(kind: type[Settings]) -> Iterator[SettingRow]:
    """Every setting in the order of its definition, groups opened."""
    from server.plugins import installed_plugins, resolve

    for name, field in kind.model_fields.items():
        if name != "plugins":
            yield from _leaves((name,), field, field.get_default(call_default_factory=True), "")
            continue
        for plugin in installed_plugins().values():
            if plugin.settings is not None:
                yield from _leaves((name, plugin.name), FieldInfo(), resolve(plugin, plugin.settings)(), "")


def _leaves(path: tuple[str, ...], field: FieldInfo, default: object, about: str) -> Iterator[SettingRow]:
    from server.settings.profile import RetrievalProfile

    description = " ".join(part for part in (about, field.description) if part)
    if not isinstance(default, BaseModel) or isinstance(default, RetrievalProfile):
        yield SettingRow(path, field, description, default)
        return
    # A group within a group says by its description which of several alike it is.
    inner = description if len(path) > 2 else ""
    for name, below in type(default).model_fields.items():
        yield from _leaves((*path, name), below, getattr(default, name), inner)


def sources(kind: type[Settings], flags: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The places settings of `kind` are read from, strongest first, each with what it says."""
    from pydantic_settings import EnvSettingsSource, InitSettingsSource, TomlConfigSettingsSource

    init = InitSettingsSource(kind, init_kwargs=dict(flags))
    environment = EnvSettingsSource(kind)
    return [
        (f"file {source.toml_file_path}", source())
        if isinstance(source, TomlConfigSettingsSource)
        else ("flag" if source is init else "environment", source())
        for source in kind.settings_customise_sources(kind, init, environment, environment, init)
    ]


def source_of(places: list[tuple[str, Mapping[str, Any]]], path: tuple[str, ...]) -> str:
    """The name of the strongest of `places` that sets `path`, or `default`."""
    name = next((name for name, values in places if _has(values, path)), "default")
    return f"environment ANAPHORA_{'__'.join(path).upper()}" if name == "environment" else name


def effective(settings: Settings, kind: type[Settings], flags: Mapping[str, Any]) -> list[Effective]:
    """Each setting of `settings` with its source; `kind` and `flags` are what they were built from."""
    places = sources(kind, flags)
    return [
        Effective(setting, show(_get(settings, setting.path)), source_of(places, setting.path))
        for setting in leaves(kind)
    ]


def show(value: object) -> str:
    """A value as a person may see it: secrets and passwords in addresses are hidden."""
    match value:
        case SecretStr():
            return "(set, hidden)" if value.get_secret_value() else "(empty)"
        case "" | ():
            return "(empty)"
        case bool():
            return str(value).lower()
        case dict():
            return ", ".join(f"{name} = {show(item)}" for name, item in value.items()) or "(empty)"
        case tuple() | list():
            return ", ".join(show(item) for item in value)
    return without_credentials(str(value))


def allowed(field: FieldInfo) -> str:
    """The values a setting takes, in words."""
    annotation = field.annotation
    if get_origin(annotation) is dict:
        of = get_args(annotation)[1]
        a_table = isinstance(of, type) and issubclass(of, BaseModel)
        many = "texts" if get_origin(of) is tuple else "a table" if a_table else "a text"
        return f"table of names, each with {f'one of {_choices(of)}' if get_origin(of) is Literal else many}"
    if get_origin(annotation) is Literal:
        return _choices(annotation)
    if any(get_origin(kind) is dict for kind in get_args(annotation)):
        return "whole number from 0, or a table of them by role: `{ reader = 20, agent = 60, operator = 0, local = 0 }`"
    kinds: dict[object, str] = {
        int: "whole number",
        float: "number",
        bool: "`true` or `false`",
        Path: "folder",
        SecretStr: "secret text",
    }
    words = "texts" if get_origin(annotation) is tuple else kinds.get(annotation, "text")
    bounds = {"ge": "from", "gt": "above", "le": "up to", "lt": "below"}
    limits = [
        f"{word} {getattr(item, name)}"
        for item in field.metadata
        for name, word in bounds.items()
        if hasattr(item, name)
    ]
    return " ".join((words, *limits))


def _choices(annotation: object) -> str:
    return ", ".join(f"`{value}`" for value in get_args(annotation))


def default(setting: SettingRow) -> str:
    """The default in words."""
    if setting.path == ("home",):
        return HOME_DEFAULT
    text = show(setting.default)
    return "empty" if text == "(empty)" else f"`{text}`"


def markdown(kind: type[Settings]) -> str:
    """The reference of every setting, as `docs/operate/configuration.md` holds it behind `MARK`."""
    parts = [MARK]
    groups: dict[str, list[SettingRow]] = {}
    for setting in leaves(kind):
        groups.setdefault(setting.path[0] if len(setting.path) > 1 else "", []).append(setting)
    for group, settings in groups.items():
        about = ((kind.model_fields[group].annotation.__doc__ or "") if group else "").strip(" .\n")
        parts.append(f"## `[{group}]`: {about[0].lower()}{about[1:]}\n" if group else "## Top level\n")
        for setting in settings:
            parts.append(
                f"### `{setting.name}`\n\n{setting.description}\n\n"
                f"- Default: {default(setting)}\n- Value: {allowed(setting.field)}\n"
            )
    return "\n".join(parts)


def _has(values: object, path: tuple[str, ...]) -> bool:
    return not path or (isinstance(values, Mapping) and path[0] in values and _has(values[path[0]], path[1:]))


def _get(settings: BaseModel, path: tuple[str, ...]) -> object:
    value: object = settings
    for name in path:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value
