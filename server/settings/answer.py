"""Settings of `answer`. Import them from `server.settings`."""

from __future__ import annotations

from pydantic import Field

from server.settings.group import SettingsGroup


class AnswerSettings(SettingsGroup):
    """Configure how a turn gets from passages to an answer."""

    split_questions: bool = Field(
        True,
        description="Answer compound and comparing questions part by part, unless one section covers all parts.",
    )
