"""Edits that turn sentences, the pairs made of them, and a tiny model trained on pairs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest

from index.documents import Document
from index.loaders.markdown import outline
from papers.contradiction.edits import EDITS, Siblings
from papers.contradiction.pages import Page, Told, page_of
from papers.contradiction.pairs import Pair, balanced, page_pairs, told_pairs

TEXT = """# Kettle

## Power

The kettle switches off after 30 seconds without water. If the lid is open, the kettle does not heat. Pass `--keep-warm`
to keep the water hot for 20 minutes.

- `--keep-warm`: keeps the water hot for 20 minutes.
- `--boil`: heats the water to 100 degrees.
- `--quiet`: heats the water slowly and without noise.

## Cleaning

Use vinegar once a month on Windows sills. The filter can be washed by hand. Never put the kettle into a dishwasher.
The filter of the large kettle lasts two years, and the small one needs a new filter earlier.
"""


TIMES = ("milliseconds", "seconds", "minutes", "days", "weeks", "months", "years")


def page() -> Page:
    return page_of(Document("kettle.md", "Kettle", TEXT, outline(TEXT).sections), "kettle")


@pytest.mark.parametrize(
    ("kind", "sentence", "possible"),
    [
        ("number", "It stops after 30 seconds.", {"It stops after 20 seconds.", "It stops after 100 seconds."}),
        ("unit", "It lasts 2 hours.", {f"It lasts 2 {unit}." for unit in TIMES}),
        ("negation", "The lid does not open.", {"The lid opens."}),
        ("negation", "The lid is open.", {"The lid is not open.", "The lid isn't open."}),
        ("negation", "You cannot wash it.", {"You can wash it."}),
        ("negation", "Never wash the filter.", {"Always wash the filter."}),
        ("opposite", "Wash it before use.", {"Wash it after use."}),
        ("option", "Pass `--boil` to heat it.", {"Pass `--quiet` to heat it.", "Pass `--keep-warm` to heat it."}),
        ("name", "It runs on Linux only.", {"It runs on Windows only.", "It runs on macOS only."}),
        ("condition", "If the lid is open, it does not heat.", {"It does not heat."}),
        ("condition", "The kettle does not heat if the lid is open.", {"The kettle does not heat."}),
        ("yes/no", "Yes, it can be washed.", {"No, it can be washed."}),
        ("yes/no", "No: it breaks.", {"Yes: it breaks."}),
    ],
)  # fmt: skip
def test_an_edit_turns_one_thing(kind: str, sentence: str, possible: set[str]) -> None:
    siblings = Siblings([one.text for one in page().sentences], [])
    made = {EDITS[kind](sentence, siblings, random.Random(seed)) for seed in range(60)}
    assert made & possible
    if kind != "number":  # one without a like beside it is counted on
        assert made <= possible


@pytest.mark.parametrize("kind", sorted(EDITS))
def test_a_sentence_without_a_handle_is_left_alone(kind: str) -> None:
    assert EDITS[kind]("Kettles boil water well.", Siblings([], []), random.Random(1)) is None


def test_pages_give_true_turned_and_neighbouring_pairs_with_their_windows() -> None:
    pairs = list(page_pairs([page()], random.Random(2)))
    assert {pair.label for pair in pairs} == {"supported", "contradicted", "neither"}
    lid = next(pair for pair in pairs if "lid" in pair.statement and pair.label == "supported")
    assert lid.evidence.startswith("Power. The kettle switches off after 30 seconds without water. If the lid is open")
    assert all(pair.dialog == "kettle.md" for pair in pairs)
    apart = [pair for pair in pairs if pair.kind == "neighbour"]
    assert apart
    assert all(pair.statement not in pair.evidence for pair in apart)


def test_answers_stand_beside_what_they_were_written_from_and_behind_their_question() -> None:
    told = Told("kettle.md", "d", "For how long does it stay hot?", "Yes, it stays hot for 20 minutes.", (
        "Pass `--keep-warm`\nto keep the water hot for 20 minutes.",
    ))  # fmt: skip
    elsewhere = replace(told, page="missing.md")
    pairs = list(told_pairs({"kettle.md": page()}, [told, elsewhere], random.Random(1)))
    [true] = [pair for pair in pairs if pair.label == "supported"]
    assert true.statement == "For how long does it stay hot? Yes, it stays hot for 20 minutes."
    assert "keep the water hot for 20 minutes" in true.evidence
    turned_pairs = {pair.kind: pair.statement for pair in pairs if pair.label == "contradicted"}
    assert turned_pairs["yes/no"] == "For how long does it stay hot? No, it stays hot for 20 minutes."
    assert "20" not in turned_pairs["number"]


def pair(name: str, label: str, kind: str, group: str, statement: str) -> Pair:
    return Pair(name, "page", group, kind, label, statement, "evidence")  # type: ignore[arg-type]


def test_rows_are_balanced_so_that_words_alone_tell_nothing() -> None:
    made = []
    for n in range(600):
        yes, denies = n % 2 == 0, n % 5 == 1
        true = "q? Yes, it is." if yes else "It is not." if denies else "It is."
        made.append(pair(f"{n}:true", "supported", "told", "answer", true))
        made.append(
            pair(f"{n}:negation", "contradicted", "negation", "answer", "It is." if denies else "It is not so.")
        )
        if yes:
            made.append(pair(f"{n}:yes/no", "contradicted", "yes/no", "answer", "q? No, it is."))
        made.append(pair(f"{n}:apart", "neither", "neighbour", "answer", true))
    chosen = balanced(made, random.Random(1), 1000)
    assert chosen[0].label == "supported"
    groups = [list(group) for _, group in groupby(chosen, key=lambda one: one.origin)]
    assert all([one.label == "supported" for one in group].index(True) == 0 for group in groups)
    assert len({group[0].origin for group in groups}) == len(groups)
    counts = Counter(one.kind for one in chosen)
    put_in = sum(one.kind == "negation" and "not" in one.statement for one in chosen)
    assert 0 < put_in <= 60 < counts["negation"] + 60
    assert counts["yes/no"] == 0  # no true answer begins with "No": the word alone would tell
    assert 0 < counts["neighbour"] <= 0.5 * len(groups)
