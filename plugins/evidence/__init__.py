"""Evidence: quotes that stand alone, and the sentences that a source is cited for.

`decontextualize` makes a quote readable alone; `source` reads a document as sentences, which `explain` ranks.
"""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="evidence",
    summary="Make quotes readable alone, and tell why a source is cited.",
    routers=("plugins.evidence.service:router",),
    page_calls={
        "make_readable": "plugins.evidence.page:make_readable",
        "why_source": "plugins.evidence.page:why_source",
        "why_linked": "plugins.evidence.page:why_linked",
    },
)
