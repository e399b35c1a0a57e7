"""A town: a model that answers by a script, and documents small enough to know by heart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from index.documents import Document, Section

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from tests.chat_model import ScriptedChatModel
    from tests.encoder import WordEncoder


def find_step(messages: Sequence[BaseMessage]) -> str:
    """Which prompt a request was made from."""
    from synth.tasks import chat_prompt

    return next(
        name
        for name in ("propositions", "dialog", "contextualise", "ground")
        if chat_prompt(name).system == messages[0].content
    )


@pytest.fixture
def words() -> WordEncoder:
    """An encoder that needs no model."""
    from tests.encoder import WordEncoder

    return WordEncoder()


def document(name: str, text: str, title: str = "", heading: tuple[str, ...] = ()) -> Document:
    """A document of one section."""
    return Document(name, title, text, (Section(heading, 0, len(text)),))


PERMIT = (
    "A parking permit costs $35 a year. You can order the permit online. The permit is not refundable. "
    "Send the permit form to the town clerk by mail."
)
LIBRARY = "The town library opens at 9. Children need a library card. A library card is free for residents."
POOL = "The town pool is closed in winter. A pool ticket costs $4. Swimmers must wear a cap in the pool."


@pytest.fixture
def town_documents() -> list[Document]:
    """Three documents about a town, ten facts in all."""
    return [
        document("permit.md", PERMIT, "Parking permit"),
        document("library.md", LIBRARY, "Town library"),
        document("pool.md", POOL, "Town pool"),
    ]


PROPOSITIONS = {
    PERMIT: [
        "A parking permit costs $35 a year.",
        "You can order a parking permit online.",
        "A parking permit is not refundable.",
        "You send the parking permit form to the town clerk by mail.",
    ],
    LIBRARY: [
        "The town library opens at 9.",
        "Children need a library card.",
        "A library card is free for residents.",
    ],
    POOL: ["The town pool is closed in winter.", "A pool ticket costs $4.", "Swimmers must wear a cap in the pool."],
}
QUESTIONS = {
    "A parking permit costs $35 a year.": ("What does a parking permit cost?", "It costs $35 a year."),
    "You can order a parking permit online.": ("How do I order a parking permit?", "You can order a permit online."),
    "A parking permit is not refundable.": ("Can I get a refund for a parking permit?", "No, it is not refundable."),
    "You send the parking permit form to the town clerk by mail.": (
        "Where do I send the parking permit form?",
        "Send it to the town clerk by mail.",
    ),
    "The town library opens at 9.": ("When does the town library open?", "It opens at 9."),
    "Children need a library card.": ("What do children need at the town library?", "They need a library card."),
    "A library card is free for residents.": ("What does a library card cost?", "It is free for residents."),
    "The town pool is closed in winter.": ("When is the town pool closed?", "It is closed in winter."),
    "A pool ticket costs $4.": ("What does a pool ticket cost?", "It costs $4."),
    "Swimmers must wear a cap in the pool.": ("What must swimmers wear in the pool?", "They must wear a cap."),
}
SHORTER = {
    "How do I order a parking permit?": "How do I order it?",
    "Can I get a refund for a parking permit?": "And can I get a refund?",
    "Where do I send the parking permit form?": "Where do I send the form?",
    "What do children need at the town library?": "What do children need there?",
    "What does a pool ticket cost?": "What does a ticket cost?",
}


def sensible(messages: list[BaseMessage]) -> str:
    """What a good model would answer about the town."""
    step, material = find_step(messages), str(messages[1].content)
    if step == "propositions":
        return json.dumps({"propositions": next(found for text, found in PROPOSITIONS.items() if text in material)})
    if step == "dialog":
        facts = [line.partition(". ")[2] for line in material.splitlines() if line[:1].isdigit()]
        pairs = [
            {"question": QUESTIONS[fact][0], "answer": QUESTIONS[fact][1], "facts": [number]}
            for number, fact in enumerate(facts, start=1)
        ]
        return json.dumps({"greeting": None, "pairs": pairs, "thanks": {"user": "Thanks!", "assistant": "Bye."}})
    questions = [line.partition("Question: ")[2] for line in material.splitlines() if "Question: " in line]
    if step == "contextualise":
        return json.dumps({"questions": [SHORTER.get(question, question) for question in questions]})
    facts = [line.partition(". ")[2] for line in material.partition("Pairs")[0].splitlines() if line[:1].isdigit()]
    by_question = {QUESTIONS[fact][0]: number for number, fact in enumerate(facts, start=1)}
    return json.dumps({"pairs": [{"facts": [by_question[one]], "accepted": True} for one in questions]})


@pytest.fixture
def town() -> ScriptedChatModel:
    """A model that answers everything sensibly."""
    from tests.chat_model import ScriptedChatModel

    return ScriptedChatModel(script=sensible)
