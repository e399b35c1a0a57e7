"""Sources: places elsewhere whose documents a collection follows, and documents that programs push.

A connector reports the documents of a source (`source`), a mirror keeps them as files with their addresses (`mirror`),
and the index reads those files as any. `service` starts this on request, and `follow` when it is due.
"""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="sources",
    summary="Follow folders, repositories, web sites and buckets.",
    settings="plugins.sources.source:SourcesSettings",
    routers=("plugins.sources.sources_api:router",),
    commands={"sources": "plugins.sources.command:app"},
    tasks=("plugins.sources.service:follow",),
    document_folders=("plugins.sources.mirror:document_folders",),
    delete_documents=("plugins.sources.mirror:delete_mirrors",),
    workbench={"documents": "plugins.sources:workbench_documents"},
)
