"""What every table of the settings is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """A table of the settings: frozen, and nothing in it that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")
