"""State that the global options decide and every command needs: the settings and the two consoles.

Building settings is put off until a command asks, so that `--help` needs none of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from server.settings import Settings


_NO_SETTINGS = (
    "ANAPHORA_HOME",
    "ANAPHORA_KEY",
    "ANAPHORA_SOURCE_",
    "ANAPHORA_URL",
    "ANAPHORA_TEST_",
    "ANAPHORA_VLLM_HOME",
)
"""What else is read from the environment by us, by tests, and by those who ask the API."""


class SettingsError(Exception):
    """A setting has a value that cannot be used, or its file cannot be read."""


class InputError(Exception):
    """A file or an argument given to a command cannot be used."""


@dataclass
class State:
    """The global options of this run.

    `home` and `config` are as given on the command line, None where they were not.
    """

    home: Path | None = None
    config: Path | None = None
    debug: bool = False

    def settings_class(self) -> type[Settings]:
        """`Settings`, reading the file named by `--config` where one was named."""
        from pydantic_settings import SettingsConfigDict

        from server.settings import Settings

        if self.config is None:
            return Settings
        if not self.config.is_file():
            raise SettingsError(f"There is no settings file {self.config}; correct --config or leave it out.")

        class ConfiguredSettings(Settings):
            model_config = SettingsConfigDict(toml_file=self.config)

        return ConfiguredSettings

    def flags(self, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The flags of this run in the shape of `Settings`: `overrides` and `--home`."""
        flags = dict(overrides or {})
        if self.home is not None:
            flags["home"] = self.home.expanduser().absolute()
        return flags

    def settings(self, overrides: Mapping[str, Any] | None = None) -> Settings:
        """The effective settings; `overrides` are flags, nested like `{"server": {"port": 8000}}`.

        Raises SettingsError, one line for each wrong value.
        """
        from pydantic import ValidationError
        from pydantic_settings import SettingsError as UnreadableSettings

        from server.settings import UnreadableSettingsFile

        kind, flags = self.settings_class(), self.flags(overrides)
        demand_known(kind)
        try:
            return kind(**flags)
        except ValidationError as error:
            from cli.shared.reference import source_of, sources

            places = sources(kind, flags)
            lines = []
            for item in error.errors():
                path = tuple(str(part) for part in item["loc"])
                unknown = item["type"] == "extra_forbidden"
                meant = did_you_mean(kind, path) if unknown else item["msg"].removeprefix("Value error, ")
                lines.append(f"{'.'.join(path)} ({source_of(places, path)}): {meant}")
            wrong = "; ".join(lines)
            raise SettingsError(
                f"These settings cannot be used: {wrong}{'' if wrong.endswith('?') else '.'} "
                "Correct them there; docs/operate/configuration.md says what each may be."
            ) from error
        except UnreadableSettingsFile as error:
            raise SettingsError(str(error)) from error
        except UnreadableSettings as error:
            raise SettingsError(
                f"A setting in the environment cannot be read: {error}. A list is written as JSON."
            ) from error

    @cached_property
    def out(self) -> Console:
        """The console for results: standard output."""
        from cli.shared.console import open_console

        return open_console(stderr=False)

    @cached_property
    def err(self) -> Console:
        """Progress and remarks, on standard error."""
        from cli.shared.console import open_console

        return open_console(stderr=True)


def demand_known(kind: type[Settings]) -> None:
    """Raise SettingsError for a variable ANAPHORA_… of the environment that is no setting, nor another program's."""
    for name, value in os.environ.items():
        if not name.startswith("ANAPHORA_") or name.startswith(_NO_SETTINGS):
            continue
        path = tuple(name.removeprefix("ANAPHORA_").lower().split("__"))
        # What is below a group is checked with the group; Kubernetes tells of a service of our name by variables.
        if path[0] in kind.model_fields or "_SERVICE_" in name or "_PORT_" in name or value.startswith("tcp://"):
            continue
        meant = did_you_mean(kind, path).replace(".", "__")
        words = [f"ANAPHORA_{word.upper()}" if "__" in word else word for word in meant.split()]
        raise SettingsError(f"{name} is in the environment: {' '.join(words)}.".replace("?.", "?"))


def did_you_mean(kind: type[Settings], path: tuple[str, ...]) -> str:
    """Suggest the nearest setting for an unknown name, or nothing if none is near."""
    from cli.shared.reference import leaves

    names = [setting.name for setting in leaves(kind)]
    groups = {name.rpartition(".")[0] for name in names} - {""}
    elsewhere = [name for name in names if name.rpartition(".")[2] == path[-1]]
    close = get_close_matches(".".join(path), [*names, *groups], n=1, cutoff=0.7) or elsewhere[:1]
    return f"there is no such setting; did you mean {close[0]}?" if close else "there is no such setting"


def state_of(context: typer.Context) -> State:
    """The state the global options left in `context`."""
    state = context.find_object(State)
    return state if state is not None else State()
