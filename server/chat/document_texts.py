"""The part of the service that shows documents as they were indexed: their list, text and passages."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from server.chat.acting import Acting, acting
from server.chat.linking import cited_documents, linked_documents, linked_spans, markers, references
from server.chat.translated import MAX_ID_CHARS, clean, in_thread
from server.chat.types import (
    DocumentSummary,
    DocumentText,
    LinkView,
    MarkerView,
    PassagePage,
    ReferenceView,
)


class DocumentTextMixin(Acting):
    """Documents, read."""

    @acting("read")
    async def documents(self, collection: str) -> list[DocumentSummary]:
        """The documents of a collection, by id. Raises NotFound."""
        opened = await self._opened(collection)

        def read() -> list[DocumentSummary]:
            return [
                DocumentSummary(**asdict(info), removable=self.core.uploads.holds(collection, Path(info.path)))
                for info in sorted(opened.documents(), key=lambda info: info.id)
            ]

        return await in_thread(read)

    @acting("read")
    async def document(self, collection: str, document_id: str) -> DocumentText:
        """A document's text as it was indexed. Raises NotFound."""
        opened, key = await self._opened(collection), clean(document_id, MAX_ID_CHARS, "document_id")

        def read() -> DocumentText:
            document, infos = opened.document(key), opened.documents()
            entries = references(document)
            cited = cited_documents(key, entries, infos) if entries else []
            return DocumentText(
                id=document.id,
                title=document.title,
                source=str(document.metadata.get("source", document.id)),
                text=document.text,
                sections=document.sections,
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
        opened, key = await self._opened(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        found = await in_thread(lambda: opened.passages(key))
        return PassagePage(data=found[offset : offset + limit], offset=offset, total=len(found))
