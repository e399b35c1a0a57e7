"""How a turn searches: the settings of `retrieval`. Everybody takes them from `server.settings`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from server.settings.group import SettingsGroup


class LegWeights(SettingsGroup):
    """Weight of one leg in each of the two rankings; 0 leaves that ranking out."""

    lexical: float = Field(1.0, ge=0, description="Weight of the leg's BM25 ranking.")
    dense: float = Field(1.0, ge=0, description="Weight of the leg's dense ranking.")
    leaning: float = Field(
        0.0,
        ge=-10,
        le=10,
        description="How both follow a rewriter's belief that the question needs its history: they are multiplied by "
        "exp(leaning × (belief − 0.5)).",
    )


def _leg(lexical: float, dense: float, description: str) -> LegWeights:
    weights: LegWeights = Field(LegWeights(lexical=lexical, dense=dense), description=description)
    return weights


class LegsSettings(SettingsGroup):
    """How much each query of a follow-up weighs; the measurements are in `docs/lab/retrieval.md`."""

    typed: LegWeights = _leg(4, 4, "The question as typed.")
    rewritten: LegWeights = _leg(3, 4, "The rewriter's stand-alone question, where it wrote one.")
    expanded: LegWeights = _leg(2, 1.5, "The question with the words the rewriter added, or kept as it is.")
    users: LegWeights = _leg(0, 0.5, "The last user turns before the question, and the question.")
    exchange: LegWeights = _leg(2, 0.25, "The previous question, its answer, and the question.")
    opening: LegWeights = _leg(1, 0.5, "The question the conversation began with, and the question.")
    conversation: LegWeights = _leg(1, 1, "Everything said so far, the question and the newest first.")
    subject: float = Field(
        3.0, ge=0, description="How much passages of the document that the conversation is about are favoured."
    )
    subject_leaning: float = Field(
        4.5, ge=-10, le=10, description="How that follows the belief that the question needs its history, as `leaning`."
    )
    user_turns: int = Field(1, ge=1, description="User turns in the `users` leg.")
    clarity: float = Field(
        12.0, ge=0, description="How strongly the typed question's weights follow how clearly it points at passages."
    )

    @model_validator(mode="before")
    @classmethod
    def _as_kept(cls, values: Any) -> Any:
        if isinstance(values, dict) and "meant" in values:
            raise ValueError("no rewriter gives a vector any more, so `meant` weighs nothing: take it out")
        return values


class RetrievalSettings(SettingsGroup):
    """How a turn searches."""

    evidence: int = Field(6, ge=1, le=50, description="Passages handed to the answerer at most.")
    depth: int = Field(100, ge=1, le=1000, description="Passages each ranking contributes to the fusion.")
    rrf_k: int = Field(60, ge=1, description="The constant of reciprocal rank fusion.")
    legs: LegsSettings = Field(LegsSettings(), description="Weights of a follow-up's queries.")
    rerank: Literal["auto", "always", "never"] = Field(
        "auto", description="Cross-encoder over the top: `auto` only with a stand-alone question."
    )
    reranker: str = Field(
        "",
        description="Run, registered name, hub id or folder of the cross-encoder; empty takes the promoted run, else "
        "the packaged one that reads conversations; `ms-marco-minilm-l12` is what that was trained from.",
    )
    rerank_top: int = Field(14, ge=1, le=200, description="Passages the cross-encoder reads.")
    rerank_weight: float = Field(
        1.2, gt=0, le=100, description="What its scores count beside the place in the list: the odds fall as 1 / rank."
    )
    rerank_seconds: float = Field(0.5, gt=0, description="Time the cross-encoder may take, in seconds.")
    answerable: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Refuse without asking a model where the chance that the passages answer is below this; 0 never.",
    )
    ask_back: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Ask which of the sections found is meant where the chance that this is right is at least this; "
        "0 never.",
    )
