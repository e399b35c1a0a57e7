"""How follow-ups take up what was said: every move on one small document."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from rewriter.words import stems
from synth.rules import style
from synth.rules.dialog import Dialog, Step
from synth.rules.material import Material, material_of
from synth.rules.moves import POINTING, STANDING, Move
from synth.rules.phrases import Phrase

TEXT = """
# Parking permits

A parking permit is a card for residents. You can order the parking permit online. The city office issues parking
permits, visitor passes, and garage keys. You must send the residence form to the city office.

## Fees

The parking permit costs $40. The visitor pass costs $10. You can pay the annual fee within 30 days. You must pay the
late fee in person. If you are retired, you can pay the reduced fee.

## Renewing a parking permit

You can renew the parking permit through the resident portal. The resident portal sends a reminder letter. If you
lose the parking permit, you must report the loss to the city office. A visitor pass expires after two days. The
garage key opens the north garage, the south garage, and the bicycle room. Your spouse can order the visitor pass.
"""


@pytest.fixture(scope="module")
def material() -> Material:
    return material_of("permits.md", "Parking permits", TEXT)


def steps(move: Move, material: Material, wanted: Callable[[Step], bool] = lambda _: True) -> list[tuple[Dialog, Step]]:
    """What the move does at some place of many conversations of two standing questions and their answers."""
    found = []
    for seed in range(400):
        dialog = Dialog(material, (material,), random.Random(seed))
        for opening, _ in reversed(STANDING[:3] * 2):
            if (step := opening(dialog)) is not None:
                dialog.add(step)
        if dialog.turns and (step := move(dialog)) is not None and wanted(step):
            found.append((dialog, step))
    return found


def named(material: Material, core: str) -> Phrase:
    (phrase,) = [one for one in material.phrases if one.key == core]
    return phrase


@pytest.mark.parametrize("move", [move for move, _ in POINTING], ids=lambda move: move.__name__)
def test_what_a_pointing_question_leaves_out_stands_in_the_history(move: Move, material: Material) -> None:
    from synth.rules.generate import ADDED

    found = steps(move, material)
    assert len(found) >= 5
    copied = 0
    for dialog, step in found:
        assert step.question != step.rewrite
        told = set(stems(" ".join((*(turn.text for turn in dialog.turns), step.question))))
        copied += set(stems(step.rewrite)) - ADDED <= told
    # What cannot be copied makes no row; nearly all can be.
    assert copied >= 0.8 * len(found)


@pytest.mark.parametrize("move", [move for move, _ in STANDING[:5]], ids=lambda move: move.__name__)
def test_a_standing_question_is_its_own_rewrite(move: Move, material: Material) -> None:
    other = material_of("pool.md", "Pool", TEXT.replace("parking permit", "pool ticket").replace("visitor", "family"))
    found = []
    for seed in range(60):
        dialog = Dialog(material, (material, other), random.Random(seed))
        first = STANDING[0][0](dialog)
        if first is not None:
            dialog.add(first)
        if (step := move(dialog)) is not None:
            found.append(step)
    assert found
    assert all(step.question == step.rewrite for step in found)


@pytest.mark.parametrize(
    ("name", "typed", "rewrite"),
    [
        ("same_topic", "How do I renew it?", "How do I renew the parking permit?"),
        ("instead", "and the visitor pass?", "How do I renew the visitor pass?"),
        ("manner", "and by mail?", "How do I renew the parking permit by mail?"),
        ("correction", "sorry, I mean the visitor pass", "How do I renew the visitor pass?"),
        ("circumstances", "what if I am retired?", "How do I renew the parking permit if I am retired?"),
        ("more", "anything else?", "Is there anything else I should know about the parking permit?"),
    ],
)
def test_the_ways_of_pointing_are_among_what_the_moves_say(
    name: str, typed: str, rewrite: str, material: Material
) -> None:
    from synth.rules.asking import Action
    from synth.rules.questions import Ref
    from synth.rules.templates import of_action

    (move,) = [one for one, _ in POINTING if one.__name__ == name]
    permit = replace(named(material, "parking permit"), text="the parking permit")
    asked = of_action("How do I {a}?", Action("renew the parking permit", ("renew ", Ref(permit, "object"))))
    said = set()
    for seed in range(6_000):
        dialog = Dialog(material, (), random.Random(seed))
        text = "What is the parking permit?" if name == "same_topic" else "How do I renew the parking permit?"
        dialog.add(Step(text, text, ("test",), None if name == "same_topic" else asked, None, permit))
        if (step := move(dialog)) is not None:
            said.add((step.question, step.rewrite))
        if (typed, rewrite) in said:
            return
    pytest.fail(f"none of {len(said)} was {typed!r}: {sorted(said)[:20]}")


def test_a_person_is_he_or_she_and_things_are_it_or_they(material: Material) -> None:
    (move,) = [one for one, _ in POINTING if one.__name__ == "same_topic"]
    spouse = named(material, "spouse")
    permits = named(material, "parking permits")
    for phrase, allowed, refused in (
        (spouse, {"she", "her"}, {"it", "its"}),
        (permits, {"they", "them", "their"}, {"it", "its"}),
    ):
        words: set[str] = set()
        for seed in range(200):
            dialog = Dialog(material, (), random.Random(seed), gender="she")
            dialog.add(Step(phrase.text, phrase.text, ("test",), None, None, phrase))
            if (step := move(dialog)) is not None and "pronoun" in step.rules:
                words |= set(step.question.lower().strip("?").split())
        assert words & allowed
        assert not words & refused


def test_typing_is_careless_now_and_then_but_keeps_names() -> None:
    rng = random.Random(3)
    said = {style.typed("What is the fee?", rng, 0.5) for _ in range(300)}
    assert {"what is the fee", "What is the fee?", "what's the fee?"} <= said
    assert any(text.startswith(("and ", "so ", "ok, ")) for text in said)
    assert style.small("FastAPI is what?") == "FastAPI is what?"
    assert style.small("I lost it") == "I lost it"
    assert style.standing("How do I pay?", rng, 0.0) == "How do I pay?"
