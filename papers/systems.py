"""The settings an evaluation compares, by name: what is searched for, how, and whether it is reranked.

`FORM[:RETRIEVER][+RERANK]`, for example `typed:bm25`, `context:rrf`, `auto:variants+rerank`.

FORM       `typed` (the user's words), `context` (the previous exchange and the question), `human` (what a person
           wrote), or a rewriter: `auto` (the one a turn would use by default), `prompted`, a run's id, a folder, or
           `served` (`auto` beside a served model, for which the questions that people wrote stand in).
RETRIEVER  `bm25`, `dense`, `rrf` (both, fused): the form's text alone. `variants`: everything a chat turn searches,
           with the form as its rewrite.
RERANK     `+rerank` (as a turn does: only where a stand-alone question is known), `+rerank-always`.

The texts go through `TurnSearch`, the code of a chat turn; the first question of a conversation is searched as
typed, as it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast, get_args

from evaluation.questions import EvaluationError, Question
from index.documents import Document, Hit, Query, Where
from index.encoders import Vectors
from rewriter import guard
from rewriter.protocol import Conversation, Rewrite
from server.settings import Settings
from server.settings.profile import RetrievalProfile, packaged_profile
from server.turn.search import Searchable
from text.words import words

Retriever: TypeAlias = Literal["bm25", "dense", "rrf", "variants"]
Reranking: TypeAlias = Literal["never", "auto", "always"]

FIXED_FORMS = ("typed", "context", "human")

SERVED = "served"

DEFAULT_SYSTEMS = (
    "typed:bm25", "typed:dense", "typed:rrf", "context:bm25", "context:dense", "context:rrf", "human:bm25",
    "human:dense", "human:rrf", "auto:rrf", "typed:variants", "auto:variants", "human:variants",
)  # fmt: skip


def rewrite_alone() -> RetrievalProfile:
    """Return a profile that searches the rewritten text and no other variant."""
    profile = packaged_profile()
    weights = {
        f"{name}.{ranking}": float(name == "rewritten")
        for name, variant in profile.variants.model_dump().items()
        for ranking in variant
    }
    return profile.weighed(weights).model_copy(update={"clarity": 0.0})


@dataclass(frozen=True, slots=True)
class System:
    """One setting; `name` is how it was written, without what goes without saying."""

    form: str
    retriever: Retriever
    rerank: Reranking = "never"

    @property
    def name(self) -> str:
        suffix = {"never": "", "auto": "+rerank", "always": "+rerank-always"}[self.rerank]
        return f"{self.form}:{self.retriever}{suffix}"

    @property
    def rewriter(self) -> str:
        """The rewriter whose texts it needs; empty where it needs none."""
        return "" if self.form in FIXED_FORMS else self.form

    def settings(self, settings: Settings) -> Settings:
        """`settings` with the query variants and the reranking of this system."""
        changes: dict[str, object] = {"rerank": self.rerank}
        if self.retriever != "variants":
            changes["profile"] = rewrite_alone()
        return settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update=changes)})

    def collection(self, collection: Searchable) -> Searchable:
        """`collection`, with one of its rankings left out where the system has only one."""
        if self.retriever in ("rrf", "variants"):
            return collection
        return OneRanking(collection, lexical=self.retriever == "bm25")


def parse(name: str) -> System:
    """The system of that name. Raises EvaluationError."""
    head, plus, rerank = name.strip().rpartition("+")
    if not plus:
        head, rerank = name.strip(), "never"
    else:
        rerank = {"rerank": "auto", "rerank-always": "always"}.get(rerank, "")
    form, colon, retriever = head.rpartition(":")
    if not colon:
        form, retriever = head, "rrf"
    if not form or retriever not in get_args(Retriever) or not rerank:
        raise EvaluationError(
            f"{name!r} is no system: write FORM:RETRIEVER, such as typed:bm25 or auto:variants+rerank. "
            f"The retrievers are {', '.join(get_args(Retriever))}."
        )
    if (form, retriever) == ("context", "variants"):
        raise EvaluationError(
            "context:variants is no system: the variants hold the previous exchange already; use typed:variants."
        )
    return System(form, cast("Retriever", retriever), cast("Reranking", rerank))


class OneRanking:
    """A collection of which only BM25, or only the dense ranking, answers."""

    def __init__(self, collection: Searchable, *, lexical: bool) -> None:
        self._collection = collection
        self._weights = {"lexical": 1.0 if lexical else 0.0, "dense": 0.0 if lexical else 1.0}

    @property
    def version(self) -> str:
        return self._collection.version

    def search(
        self, queries: Sequence[Query], k: int = 20, where: Where | None = None, depth: int = 100, rrf_k: int = 60
    ) -> list[Hit]:
        """As the collection's own, with the other ranking's weight at 0."""
        single = [
            replace(query, lexical=self._weights["lexical"], dense=self._weights["dense"], confidence=0.0)
            for query in queries
        ]
        return self._collection.search(single, k=k, where=where, depth=depth, rrf_k=rrf_k)

    def document(self, document_id: str) -> Document:
        return self._collection.document(document_id)

    def question_vector(self, text: str, encoder: str) -> Vectors | None:
        return self._collection.question_vector(text, encoder)


class KnownRewrites:
    """Answers with rewrites that were made before, for the questions they were made for."""

    def __init__(self, name: str, rewrites: Mapping[tuple[Conversation, str], Rewrite]) -> None:
        self.name = name
        self._rewrites = rewrites

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        return self._rewrites[conversation, question]


class PeopleWriting:
    """Stands in for a served model: writes what people wrote, as far as the guard lets it pass."""

    name = "people"

    def __init__(self, questions: Sequence[Question]) -> None:
        self._written = {(question.conversation, question.text): question for question in questions}

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """Return the written question, `keep` where it is the typed one, or `refused`."""
        written = self._written[conversation, question].rewrite or question
        if words(written) == words(question):
            return Rewrite(question, "keep")
        reason = guard.check(conversation, question, written)
        return Rewrite(question, "refused", reason=reason) if reason else Rewrite(written, "rewrite")

    async def arewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """As `rewrite`."""
        return self.rewrite(conversation, question)


def human_rewrite(question: Question) -> Rewrite:
    """Return a person's rewrite as a rewriter with full confidence would."""
    rewrite = bool(question.needs_rewrite)
    return Rewrite(question.rewrite if rewrite else question.text, "rewrite" if rewrite else "keep", confidence=1.0)


def context_text(question: Question) -> str:
    """The previous question and answer, and the question: the usual baseline without a rewriter."""
    last_question, answered = question.conversation.last_exchange()
    return " ".join(part for part in (last_question, answered, question.text) if part)
