"""Compliance: an audit log of who did what, and the erasure of documents and persons."""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="compliance",
    summary="Keep an audit log, and erase documents and persons.",
    settings="plugins.compliance.settings:ComplianceSettings",
    routers=("plugins.compliance.audit_service:router",),
    commands={"audit": "plugins.compliance.commands:audit", "erase": "plugins.compliance.commands:erase"},
    tables=("plugins.compliance.audit_log:TABLES",),
    audit_logs=("plugins.compliance.audit_log:append",),
    tasks=("plugins.compliance.audit_service:trim_expired",),
    checks=("plugins.compliance.audit_service:check_chain",),
)
