"""Curated answers: people answer a question ahead, and whoever asks for the same gets that before a model is asked.

`store` keeps the answers, `answering` says which one is to a question and gives it to a turn, and `editing` lets people
of the house write them.
"""

from __future__ import annotations

from pydantic import Field

from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="curated",
    summary="Give the answers that people of the house wrote ahead.",
    settings="plugins.curated:CuratedSettings",
    routers=("plugins.curated.editing:router",),
    tables=("plugins.curated.store:TABLES",),
    answerers=("plugins.curated.answering:answerer",),
    workbench={"review": "plugins.curated:workbench_review"},
)


class CuratedSettings(SettingsGroup):
    """Configure curated answers."""

    enabled: bool = Field(
        False, description="Give the answers that people of the house wrote ahead, and let agents write them."
    )
