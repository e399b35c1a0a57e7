"""Answers without a model: the right sentences, quoted exactly, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from index.query import Hit
from rewriter.protocol import Message
from server.turn.answer import AnswerReader
from server.turn.evidence import best_sentences
from server.turn.system_messages import DOUBTFUL, INTRODUCTION, history_for_model
from tests.server.turn_fakes import FAX, LEAVE, FakeCollection, Reversing, evidence
from tests.server.turn_playing import FOLLOW_UP, done, engine, play

OTHER = "Train tickets are refunded in full. Taxi rides are refunded only after ten in the evening."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How long does parental leave last?", "Parental leave lasts ten weeks."),
        ("Can the form be sent by fax?", "The form may also be sent by fax to 555-0199."),
        ("Are taxi rides refunded?", "Taxi rides are refunded only after ten in the evening."),
    ],
)
def test_the_sentence_that_answers_comes_first(question: str, expected: str) -> None:
    passages = evidence(OTHER, LEAVE, FAX)
    quote = best_sentences(question, passages)[0]

    assert quote.quote == expected
    source = passages[quote.n - 1]
    assert source.text[quote.start - source.start : quote.end - source.start] == expected


def test_a_question_about_something_else_is_refused() -> None:
    assert best_sentences("Which university did the mayor attend?", evidence(LEAVE, FAX, OTHER)) == []


def test_a_denial_answers_too() -> None:
    assert best_sentences("Is leave paid after week 8?", evidence(LEAVE))[0].quote == "It is not paid after week 8."


def test_what_a_colon_announces_is_quoted_with_it() -> None:
    text = (
        "Declare an optional parameter with a default:\n\n```python\nq: str | None = None\n```\n\nOther words follow."
    )

    assert (
        best_sentences("How do I declare an optional parameter?", evidence(text))[0].quote == text.partition("\n\nO")[0]
    )


@pytest.mark.parametrize(
    "block",
    [
        "```python\nfirst = 1\n\nsecond = 2\n```",
        "- Name the project.\n- Choose a folder:\n\n    ```sh\n    cd folder\n    ```\n\n- Press *Create*.",
        "1. Name it.\n2. Create it.",
        "| Plan | Price |\n|---|---|\n| free | 0 |\n| large | 9 |",
        "//// tab | Linux\n\n```sh\nrun\n```",
    ],
)
def test_the_whole_block_is_quoted_with_the_sentence_that_leads_to_it(block: str) -> None:
    lead = "A project is created like this:"
    text = f"Before.\n\n{lead}\n\n{block}\n\nOther words follow."
    quote = best_sentences("How do I create a project?", evidence(text))[0]

    assert quote.quote == f"{lead}\n\n{block}"
    assert text[quote.start : quote.end] == quote.quote


def test_of_a_long_block_whole_lines_are_quoted_up_to_a_bound() -> None:
    items = "\n".join(f"- Step {n} of the creation is done by hand." for n in range(200))
    quote = best_sentences("How is it created?", evidence(f"It is created like this:\n\n{items}"))[0].quote
    assert 1900 < len(quote) < 2100
    assert quote.endswith("is done by hand.")


@pytest.mark.parametrize("after", ["\n\nSend the form by fax to 555-0199.", " Send the form by fax to 555-0199."])
def test_a_question_of_the_documents_is_quoted_with_its_answer(after: str) -> None:
    text = f"Can the form be sent by fax?{after} Other words follow."

    quotes = best_sentences("Can the form be sent by fax?", evidence(text, "Can the form be sent by fax?"))
    assert [quote.quote for quote in quotes if "?" in quote.quote] == [text.removesuffix(" Other words follow.")]


@pytest.mark.parametrize("link", ["* [Send forms by fax](fax.md)", "[Send forms by fax](https://example.org/fax?a=1)."])
def test_a_bare_link_is_not_quoted(link: str) -> None:
    assert best_sentences("Send forms by fax", evidence(link)) == []
    assert best_sentences("Send forms by fax", evidence(f"Send forms by fax as {link} has it."))


def test_at_most_three_and_none_twice() -> None:
    quotes = best_sentences("parental leave lasts how long", evidence(LEAVE, LEAVE, LEAVE, LEAVE))

    assert len({quote.quote for quote in quotes}) == len(quotes) <= 3


@pytest.mark.parametrize(
    "table",
    [
        "| Request limit of the plan | Plan |\n|---|---:|\n| ten requests | free |",
        "Request limit of the plan | Plan\n--- | ---\nten requests | free",
        "=========================  ====\nRequest limit of the plan  Plan\n=========================  ====\nten  free\n"
        "=========================  ====",
    ],
)
def test_the_header_of_a_table_is_never_quoted(table: str) -> None:
    text = f"The request limit depends on the plan:\n\n{table}\n\nThe request limit of a plan is counted each day."
    quotes = [quote.quote for quote in best_sentences("What is the request limit of the plan?", evidence(text))]

    led = [quote for quote in quotes if quote.startswith("The request limit depends on the plan:")]
    # Alone never; below the sentence that leads to it the whole table is quoted.
    assert led == [
        f"The request limit depends on the plan:\n\n{table}"
        if "|" in table
        else "The request limit depends on the plan:"
    ]
    assert not any("Plan" in quote or "--" in quote or "==" in quote for quote in quotes if quote not in led)


def test_an_item_of_a_list_is_quoted_whole() -> None:
    item = "- `max_age`: for how long browsers keep CORS answers, in seconds. Defaults to `600`."
    passages = evidence(f"Arguments:\n\n- `origins`: who may call.\n{item}\n- `other`: nothing.")

    assert [one.quote for one in best_sentences("How long do browsers keep CORS answers?", passages)] == [item]


PRICES = "What it costs.\n\n| Plan | Price | Users |\n|---|---|---|\n| free | 0 | 1 |\n| large | 9 | 200 |\n\nBye."


def test_a_row_is_read_as_a_sentence_and_quoted_below_its_header() -> None:
    passages = evidence(PRICES)
    texts = list[str]()

    def read(question: str, asked: Sequence[str]) -> list[float | None]:
        texts.extend(asked)
        return [5.0 if "large" in text else -5.0 for text in asked]

    [quote] = best_sentences("How many users may the large plan have?", passages, read=read)
    shown = AnswerReader(passages)
    shown.quote(quote)

    assert "Plan: large; Price: 9; Users: 200." in texts
    assert quote.quote == PRICES[quote.start : quote.end] == "| large | 9 | 200 |"
    assert shown.answer().text == "> | Plan | Price | Users |\n> |---|---|---|\n> | large | 9 | 200 |\n>\n> [1]"
    assert all("|" not in one.quote for one in best_sentences("How many users has the large plan?", passages))


class Unsure(Reversing):
    """Finds every text as relevant as it is told."""

    relevance = -3.0

    def rerank(self, question: str, hits: Sequence[Hit], *args: Any, **options: Any) -> list[Hit]:
        return [replace(hit, relevance=self.relevance) for hit in hits]


@pytest.mark.parametrize(("relevance", "status"), [(2.0, "quoted"), (-3.0, "quoted"), (-9.0, "refused")])
def test_where_no_sentence_is_sure_its_paragraph_is_quoted_with_the_doubt_told(relevance: float, status: str) -> None:
    reranker = Unsure()
    reranker.relevance = relevance
    paragraph = "The office is upstairs. Mrs Okafor runs it. Ring twice."
    found = FakeCollection(texts=(f"# Office\n\n{paragraph}\n\nNothing else.",))
    end = done(play(engine(reranker=reranker, collection=found), "Who is the boss there?"))

    assert end.status == status
    assert (DOUBTFUL in end.answer) == (f"> {paragraph} [1]" in end.answer) == (relevance == -3.0)
    assert (INTRODUCTION in end.answer) == (relevance == 2.0)
    assert not history_for_model([Message("assistant", DOUBTFUL)])


def test_sentences_are_read_beside_what_a_follow_up_leans_on() -> None:
    reranker = Reversing(reads_conversations=True)
    play(engine(reranker=reranker), "and for how long at most?", conversation=FOLLOW_UP)

    assert [context.asked for context in reranker.contexts if context] == 2 * ["How long is parental leave?"]
    assert set(reranker.asked) == {"and for how long at most?"}
