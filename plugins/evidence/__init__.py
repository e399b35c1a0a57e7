"""Evidence: quotes that stand alone, and the sentences that a source is cited for.

`source` reads a document as sentences and passages, with the spans of a quote; `rewrite_checks` refuses additions that
the document does not hold; `decontextualize` makes a quote readable alone; `explain` ranks the sentences of a source.
"""

from __future__ import annotations

from server.plugins import Plugin

plugin = Plugin(
    name="evidence",
    summary="Make quotes readable alone, and tell why a source is cited.",
    routers=("plugins.evidence.evidence_api:router",),
    page_calls={
        "make_readable": "plugins.evidence.page:make_readable",
        "why_source": "plugins.evidence.page:why_source",
        "why_linked": "plugins.evidence.page:why_linked",
    },
)
