"""Answers without a model: the right sentences, quoted exactly, or none."""

from __future__ import annotations

import pytest

from rewriter.protocol import Conversation, Message, Rewrite
from rewriter.terms import resolve
from server.settings import RetrievalSettings, Settings
from server.turn.answer import AnswerReader
from server.turn.decision import Chances
from server.turn.events import EvidenceEvent
from server.turn.evidence import best_sentences, nearest_sentences, sureness, unrepeated
from server.turn.support import SupportScorer
from server.turn.system_messages import DOUBTFUL, INTRODUCTION, history_for_model
from tests.server.turn_fakes import FAX, LEAVE, FakeCollection, Reversing, Showing, evidence
from tests.server.turn_playing import FOLLOW_UP, done, engine, play
from text.sentences import sentence_spans

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


PRICES = "What it costs.\n\n| Plan | Price | Users |\n|---|---|---|\n| free | 0 | 1 |\n| large | 9 | 200 |\n\nBye."


def test_a_row_that_was_read_is_quoted_below_its_header() -> None:
    passages = evidence(PRICES)
    row = PRICES.index("| large")
    chances = {(1, start): 0.01 for start, _ in sentence_spans(PRICES)} | {(1, row): 0.8}

    quotes, sure = nearest_sentences("How many users may the large plan have?", passages, chances=chances)
    shown = AnswerReader(passages)
    shown.quote(quotes[0])

    assert sure
    assert [quote.quote for quote in quotes] == ["| large | 9 | 200 |"]
    assert shown.answer().text == "> | Plan | Price | Users |\n> |---|---|---|\n> | large | 9 | 200 |\n>\n> [1]"
    assert all("|" not in one.quote for one in best_sentences("How many users has the large plan?", passages))


MODES = [
    "There are two modes:\n\n* IP\n* IP-NODATA",
    "In `IP` mode, queries get the local address.",
    "In `IP-NODATA` mode, queries get the local address of IPv4.",
]


def test_of_a_list_s_item_that_a_question_names_what_is_said_of_it_comes_first() -> None:
    passages = evidence(*MODES)
    chances = {(1, 23): 0.1, (1, 29): 0.1, (2, 1000): 0.5, (3, 2000): 0.2}
    quotes, _ = nearest_sentences("what does the second one return? IP-NODATA", passages, chances=chances)
    assert quotes[0].quote == MODES[1]
    named, _ = nearest_sentences(
        "what does the second one return? IP-NODATA", passages, chances=chances, item="IP-NODATA"
    )
    assert named[0].quote == MODES[2]
    # Far less likely than the best.
    unlikely, _ = nearest_sentences("?", passages, chances=chances | {(3, 2000): 0.001}, item="IP-NODATA")
    assert unlikely[0].quote == MODES[1]


EXAMPLES = "Charts hold values. Give them with a flag, for example:\n\n```sh\nhelm -f a.yaml\n```\n\nValues are merged."


@pytest.mark.parametrize(("question", "first"), [("give me an example", "Give them"), ("and why?", "Charts hold")])
def test_whoever_asks_for_an_example_is_not_told_again_what_was_said(question: str, first: str) -> None:
    chances = {(1, 0): 0.6, (1, EXAMPLES.index("Give")): 0.3}
    quotes, _ = nearest_sentences(question, evidence(EXAMPLES), chances=chances, before="Charts hold values.")
    assert quotes[0].quote.startswith(first)
    # Code is shown again.
    again, _ = nearest_sentences("an example", evidence(EXAMPLES), chances=chances, before=EXAMPLES)
    assert "helm -f" in again[0].quote
    # So is what was said, if there is nothing else.
    only, _ = nearest_sentences("an example", evidence("Charts hold values."), before="Charts hold values.")
    assert [quote.quote for quote in only] in ([], ["Charts hold values."])


OFFICE = "The office is upstairs. Mrs Okafor runs it. Ring twice.\n\nIt closes at noon. On Sundays nobody is there."


def chances_of(*chances: float) -> dict[tuple[int, int], float]:
    """Chances of the sentences of OFFICE."""
    return {(1, start): chance for (start, _), chance in zip(sentence_spans(OFFICE), chances, strict=True)}


def test_the_likeliest_sentence_is_quoted_with_likely_neighbours() -> None:
    sure = nearest_sentences("Who is the boss?", evidence(OFFICE), chances=chances_of(0.2, 0.7, 0, 0, 0))
    alone = nearest_sentences("Who is the boss?", evidence(OFFICE), chances=chances_of(0, 0.9, 0, 0, 0))
    apart = nearest_sentences("Who is the boss?", evidence(OFFICE), chances=chances_of(0, 0.6, 0, 0, 0.3))

    assert [quote.quote for quote in sure[0]] == ["The office is upstairs. Mrs Okafor runs it."]
    assert [quote.quote for quote in alone[0]] == ["Mrs Okafor runs it."]
    assert [quote.quote for quote in apart[0]] == [OFFICE[24:]]
    assert [sure[1], alone[1], apart[1]] == [True, True, True]


def test_where_no_sentence_is_likely_more_is_quoted_with_a_doubt_and_nothing_where_none_is() -> None:
    doubted, sure = nearest_sentences("Who is the boss?", evidence(OFFICE), chances=chances_of(0.01, 0.2, 0, 0, 0))
    assert [quote.quote for quote in doubted] == ["The office is upstairs. Mrs Okafor runs it. Ring twice."]
    assert not sure
    assert nearest_sentences("Who is the boss?", evidence(OFFICE), chances=chances_of(0, 0.001, 0, 0, 0)) == ([], False)


@pytest.mark.parametrize(
    ("harder", "easier"),
    [
        ("how many badges are there at most", "which badges are there"),
        ("and is there a badge for dogs?", "and which badge is for dogs?"),
    ],
)
def test_of_amounts_and_yes_or_no_quotes_are_less_sure(harder: str, easier: str) -> None:
    odds = Chances(0.9, 0.02, 0.08)
    assert sureness(harder, 0.6, odds, 2.0) < sureness(easier, 0.6, odds, 2.0)
    assert sureness(easier, 0.6, Chances(0.8, 0.02, 0.18), 2.0) < sureness(easier, 0.6, odds, 2.0)
    assert sureness(easier, 0.3, odds, 2.0) < sureness(easier, 0.6, odds, 2.0) < sureness(easier, 0.6, odds, 5.0)
    assert 0 < sureness(easier, 0.0, Chances(0, 0, 1), float("-inf")) < sureness(easier, 1.0, odds, float("inf")) < 1


@pytest.mark.parametrize(("score", "status"), [(0.999, "quoted"), (0.2, "quoted"), (1e-5, "refused")])
def test_where_no_sentence_is_sure_its_paragraph_is_quoted_with_the_doubt_told(
    score: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.turn.evidence.ANSWERED", 0.5)
    paragraph = "The office is upstairs. Mrs Okafor runs it. Ring twice."
    found = FakeCollection(texts=(f"# Office\n\n{paragraph}\n\nNothing else.",))
    end = done(play(engine(reranker=Showing(score), collection=found), "Who is the boss there?"))

    assert end.status == status
    assert (DOUBTFUL in end.answer) == (score == 0.2)
    assert (INTRODUCTION in end.answer) == (score == 0.999)
    assert not history_for_model([Message("assistant", DOUBTFUL)])


def test_behind_a_doubted_answer_less_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for chance, sure, later in ((0.3, False, True), (0.2, False, False), (0.5, True, True)):
        chances = chances_of(chance, 0, 0, 0, 0)
        odds = Chances(0.95, 0.03, 0.02)
        for behind_doubt, expected in ((False, sure), (True, later)):
            _, found_sure = nearest_sentences(
                "Who is the boss?", evidence(OFFICE), chances=chances, odds=odds, relevance=5, behind_doubt=behind_doubt
            )
            assert found_sure == expected, (chance, behind_doubt)

    for name, value in {"HELD": 2, "ANSWERED": 0, "HELD_BEHIND_DOUBT": 0, "SURE_BEHIND_DOUBT": 0}.items():
        monkeypatch.setattr(f"server.turn.evidence.{name}", value)
    found = FakeCollection(texts=("# Office\n\nThe office is upstairs. Mrs Okafor runs it. Ring twice.",))
    settings = Settings(retrieval=RetrievalSettings(profile={"answerable": 0, "ask_back": 0}))
    turns = engine(collection=found, settings=settings, reranker=Showing(0.999, reads_conversations=True))
    for introduction, doubted in ((INTRODUCTION, True), (DOUBTFUL, False)):
        told = (Message("user", "Badges?"), Message("assistant", f"{introduction}\n\n> They are blue. [1]"))
        end = done(play(turns, "Who is the boss there?", conversation=history_for_model(told)))
        assert (end.status, end.doubted) == ("quoted", doubted)


def test_a_quoted_answer_is_read_later_without_its_marks() -> None:
    listed = "There are three modes:\n\n* fast\n* safe, see `a[1]`\n* slow"
    end = done(play(engine(collection=FakeCollection(texts=(listed,))), "Which three modes are there?"))
    assert "> * safe" in end.answer
    assert "[1]" in end.answer.replace("a[1]", "")
    [said] = history_for_model([Message("assistant", end.answer)]).messages
    assert said.text == listed
    assert resolve(Conversation((said,)), "and the last one?", {}) == "slow"
    for hostile in (" [1]" * 30_000 + "x", "> " * 50_000):
        history_for_model([Message("assistant", hostile)])


def test_what_an_earlier_answer_has_said_counts_little() -> None:
    said = "From the documents:\n\nThe office is upstairs. **Mrs Okafor** runs it."
    chances = unrepeated(chances_of(0.05, 0.85, 0.04, 0, 0.02), SupportScorer(evidence(OFFICE)), said)
    once, second, third, _, last = chances.values()
    assert third > once
    assert third / last == pytest.approx(2)
    assert second < 0.6
    assert sum(chances.values()) < 1

    found = FakeCollection(texts=("Badges are blue. They are worn left.", "Badges are given out by the porter."))
    turns = engine(collection=found, reranker=Showing(0.5, reads_conversations=True))
    first = done(play(turns, "badges")).citations[0].document_id
    quoted, further = Message("assistant", found.texts[first == "d2.md"]), Message("assistant", "The porter is in.")
    for between in ((), (Message("user", "And the porter?"), further)):
        for asked, again in (("What are they like?", False), ("Badges?", True)):
            history = Conversation((Message("user", asked), quoted, *between))
            cited = done(play(turns, "badges", conversation=history)).citations[0].document_id
            assert (cited == first) == again, "only what another question was answered with counts little"


@pytest.mark.parametrize(("leans", "status"), [(0.9, "quoted"), (0.1, "refused")])
def test_what_leans_on_an_answer_that_was_doubted_is_quoted_with_a_doubt(leans: float, status: str) -> None:
    class Leaning:
        name = "leaning"

        def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
            return Rewrite(question, "keep", history_probability=leans)

    settings = Settings(retrieval=RetrievalSettings(profile={"answerable": 1.0, "ask_back": 0}, rerank="always"))
    turns = engine(settings=settings, reranker=Showing(0.3), rewriter=Leaning())
    shown = f"{DOUBTFUL}\n\n> Apply with form PL-7 at the office. [2]"
    said = history_for_model((Message("user", "How do I apply?"), Message("assistant", shown)))
    end = done(play(turns, "can it be done by hand?", conversation=said))
    assert (end.status, end.doubted) == (status, status == "quoted")
    # An answer that stands in the history was read by the search.
    sure = Conversation((*said.messages, Message("assistant", "By form PL-7.")))
    assert done(play(turns, "can it be done by hand?", conversation=sure)).status == "refused"


@pytest.mark.parametrize("relevance", [-7.5, -8.5, -11.0])
def test_below_a_refusal_only_what_is_near_is_quoted(relevance: float) -> None:
    settings = Settings(retrieval=RetrievalSettings(profile={"answerable": 1.0 if relevance > -9 else 0.01}))
    found = FakeCollection(texts=("Badges are blue. They are worn on the left.",))
    told = engine(collection=found, settings=settings, reranker=Showing(0.3, relevance=relevance))
    end = done(play(told, "Who won the football world cup?"))
    assert end.status == "refused"
    assert bool(end.citations) == ("\n\n> " in end.answer) == (relevance > -8)
    assert end.answer.startswith("The documents do not seem to speak of this.") == (relevance < -8)
    assert end.answer.endswith("near enough to quote.") == (relevance < -8)
    assert "comes nearest" not in end.answer or relevance > -8


@pytest.mark.parametrize(("score", "status"), [(0.999, "quoted"), (0.3, "refused")])
def test_what_the_sentences_hold_is_not_refused(score: float, status: str) -> None:
    settings = Settings(retrieval=RetrievalSettings(profile={"answerable": 1.0, "ask_back": 0}, rerank="always"))
    turns = engine(settings=settings, reranker=Showing(score))
    end = done(play(turns, "How long is parental leave?"))
    assert (end.status, bool(end.citations)) == (status, True)
    # Nor is what the answer before has said already.
    said = Conversation((Message("user", "How is leave?"), Message("assistant", LEAVE)))
    alone = engine(collection=FakeCollection(texts=(LEAVE,)), settings=settings, reranker=Showing(score))
    assert done(play(alone, "How long is it?", conversation=said)).status == status


def test_what_the_search_did_not_read_is_read_for_its_sentences_beside_what_a_follow_up_leans_on() -> None:
    reranker = Reversing(reads_conversations=True)
    reranker.reader = Showing(0.5, reads_conversations=True)
    play(engine(reranker=reranker), "and for how long at most?", conversation=FOLLOW_UP)

    for one in (reranker, reranker.reader):
        assert [context.asked for context in one.contexts if context] == ["How long is parental leave?"]
        assert one.asked == ["and for how long at most?"]


def test_a_passage_below_those_that_are_shown_may_answer_if_it_was_read() -> None:
    found = FakeCollection(texts=(OTHER, "# Fax", LEAVE))
    one = Settings(retrieval=RetrievalSettings(evidence=1, rerank="always"))
    events = play(engine(reranker=Showing(0.9), collection=found, settings=one), "How long does parental leave last?")
    shown = next(event for event in events if isinstance(event, EvidenceEvent))
    end = done(events)
    assert "Parental leave lasts ten weeks." in end.answer
    # It is numbered on and shown; what was read and is not quoted is not.
    cited = {citation.n: citation.document_id for citation in end.citations}
    assert [(passage.n, passage.document_id) for passage in shown.passages] == [(1, "d1.md"), (2, "d3.md")]
    assert cited[2] == "d3.md"


@pytest.mark.parametrize("answered", [0.0, 1.0])
def test_on_a_busy_machine_a_doubt_stays_a_doubt(answered: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.turn.evidence.SEARCHED", answered)
    never = Settings(retrieval=RetrievalSettings(rerank="never", profile={"answerable": 0, "ask_back": 0}))
    end = done(play(engine(settings=never), "How long does parental leave last?"))
    assert end.status == "quoted"
    assert end.doubted == (DOUBTFUL in end.answer) == (answered > 0.5)
