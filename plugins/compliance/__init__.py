"""Compliance: an audit log of who did what, and the erasure of documents and persons."""

from __future__ import annotations

from pydantic import Field

from server.plugins import Plugin, SettingsGroup

plugin = Plugin(
    name="compliance",
    summary="Keep an audit log, and erase documents and persons.",
    settings="plugins.compliance:ComplianceSettings",
    routers=("plugins.compliance.audit_service:router",),
    commands={"audit": "plugins.compliance.commands:audit", "erase": "plugins.compliance.commands:erase"},
    tables=("plugins.compliance.audit_log:TABLES",),
    audit_logs=("plugins.compliance.audit_log:append",),
    tasks=("plugins.compliance.audit_service:trim_expired",),
    checks=("plugins.compliance.audit_service:check_chain",),
)


class ComplianceSettings(SettingsGroup):
    """Configure the content and the retention of the audit log."""

    content: bool = Field(False, description="Record questions too; off keeps who, what, when and from where.")
    days: int = Field(0, ge=0, description="Days a row is kept; 0 keeps all.")

    @property
    def keeps_questions(self) -> bool:
        return self.content
