"""Passages read one by one: what a model says of each, what its words say without one, and whose answer is chosen."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from papers.decontextualization.measuring import RememberedAsker
from papers.document_reading.reading import (
    NOTHING,
    PassageAnswer,
    chosen,
    extracted_readings,
    prompted_reading,
)
from tests.chat_model import ScriptedChatModel

PASSAGE = "The kettles are made of steel. They do not rust."


def said(text: str, **more: Any) -> AIMessageChunk:
    return AIMessageChunk(text, response_metadata=more)


def test_a_model_reads_one_passage_and_is_asked_once(tmp_path: Path) -> None:
    tokens = {"content": [{"token": "made", "logprob": -0.2}, {"token": " of", "logprob": -0.4}]}
    model = ScriptedChatModel(script=[said("Answer: made of steel\nand more"), said("", logprobs=tokens)])
    asker = RememberedAsker(model, tmp_path / "asked.jsonl")
    read = asyncio.run(prompted_reading(asker, "Of <b>what</b>?", PASSAGE))
    assert read == PassageAnswer("made of steel", "extractive", pytest.approx(math.exp(-0.3)))
    assert model.options[0]["logprobs"] is True
    assert "Yes or No" not in str(model.asked[0])
    asyncio.run(prompted_reading(asker, "Is it steel?", PASSAGE))
    assert "Answer with Yes or No." in str(model.asked[1])
    silent = ScriptedChatModel(script=[])
    again = asyncio.run(prompted_reading(RememberedAsker(silent, tmp_path / "asked.jsonl"), "Of <b>what</b>?", PASSAGE))
    assert again == read
    assert silent.asked == []


def test_without_a_model_sentences_answer_or_deny() -> None:
    steel, other = extracted_readings("What are kettles made of?", [PASSAGE, "Nothing of that."])
    assert (steel.text, steel.kind) == ("The kettles are made of steel.", "extractive")
    assert other == NOTHING
    assert [one.text for one in extracted_readings("Do kettles rust?", ["Kettles do not rust.", "Kettles rust."])] == [
        "No",
        "Yes",
    ]


def test_the_answer_is_chosen_by_relevance_and_confidence() -> None:
    a, b = PassageAnswer("a", "extractive", 0.5), PassageAnswer("b", "extractive", 0.9)
    assert chosen([a, b], [0.9, 0.4]) == a
    assert chosen([a, b], [0.9, 0.6]) == b
    assert chosen([NOTHING, a], [1.0, 0.01]) == a
    assert chosen([NOTHING], [1.0]) == chosen([], []) == NOTHING
