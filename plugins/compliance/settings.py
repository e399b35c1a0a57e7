"""Settings of the audit log: `[plugins.compliance]`."""

from __future__ import annotations

from pydantic import Field

from server.settings.groups import SettingsGroup


class ComplianceSettings(SettingsGroup):
    """Configure the content and the retention of the audit log."""

    content: bool = Field(False, description="Record questions too; off keeps who, what, when and from where.")
    days: int = Field(0, ge=0, description="Days a row is kept; 0 keeps all.")

    @property
    def keeps_questions(self) -> bool:
        return self.content
