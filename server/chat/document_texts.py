"""The part of the service that shows documents as they were indexed: their list, text and passages."""

from __future__ import annotations

from pathlib import Path

from server.chat.acting import Acting, acting
from server.chat.collections import checked_name
from server.chat.conversations import clean
from server.chat.translated import in_thread
from server.chat.types import (
    DocumentSummary,
    DocumentText,
    LinkView,
    MarkerView,
    PassagePage,
    PassageView,
    ReferenceView,
    SectionView,
)
from server.evidence.linking import cited_documents, linked_documents, linked_spans, markers, references

MAX_ID_CHARS = 2000


class DocumentTextMixin(Acting):
    """Documents, read."""

    @acting("read")
    async def documents(self, collection: str) -> list[DocumentSummary]:
        """The documents of a collection, by id. Raises NotFound."""
        name = checked_name(collection)
        await self.existing(name)

        def read() -> list[DocumentSummary]:
            return [
                DocumentSummary(
                    id=info.id,
                    title=info.title,
                    source=info.source,
                    format=info.format,
                    passages=info.passages,
                    warning=info.warning,
                    removable=self.core.uploads.holds(name, Path(info.path)),
                )
                for info in sorted(self.core.opened.get(name).documents(), key=lambda info: info.id)
            ]

        return await in_thread(read)

    @acting("read")
    async def document(self, collection: str, document_id: str) -> DocumentText:
        """A document's text as it was indexed. Raises NotFound."""
        name, key = checked_name(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        await self.existing(name)

        def read() -> DocumentText:
            opened = self.core.opened.get(name)
            document, infos = opened.document(key), opened.documents()
            entries = references(document)
            cited = cited_documents(key, entries, infos) if entries else []
            return DocumentText(
                id=document.id,
                title=document.title,
                source=str(document.metadata.get("source", document.id)),
                text=document.text,
                sections=tuple(
                    SectionView(heading=section.heading, start=section.start, end=section.end, page=section.page)
                    for section in document.sections
                ),
                references=tuple(
                    ReferenceView(text=text, document_id=found) for text, found in zip(entries, cited, strict=True)
                ),
                markers=tuple(MarkerView(start=a, end=b, reference=n) for a, b, n in markers(document.text, entries)),
                links=linked_documents(document, infos),
                linked=tuple(
                    LinkView(start=a, end=b, document_id=to, anchor=anchor)
                    for a, b, to, anchor in linked_spans(document, infos)
                ),
            )

        return await in_thread(read)

    @acting("read")
    async def passages(self, collection: str, document_id: str, *, offset: int = 0, limit: int = 50) -> PassagePage:
        """Passages of a document in their order, from number `offset` on. Raises NotFound."""
        name, key = checked_name(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        await self.existing(name)
        found = await in_thread(lambda: self.core.opened.get(name).passages(key))
        shown = found[offset : offset + limit]
        return PassagePage(
            data=[
                PassageView(
                    id=one.id,
                    text=one.text,
                    kind=one.kind,
                    heading=one.heading,
                    page=one.page,
                    start=one.start,
                    end=one.end,
                )
                for one in shown
            ],
            offset=offset,
            total=len(found),
        )
