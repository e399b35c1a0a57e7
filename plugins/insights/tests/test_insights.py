"""Topics of questions, the gaps of the documents, and the way from a gap to an answer."""

from __future__ import annotations

import csv
import io
from html import escape
from pathlib import Path
from typing import Any

import httpx
import pytest
from markdown_it import MarkdownIt

from plugins.insights.disagreements import disagreements
from plugins.insights.topics import escaped
from server.rewriters import open_pairs
from server.settings import Settings
from server.store import reviewed
from server.store.records import StoredTurn
from testing.plugin import PluginContract
from tests.serving import MakeSettings, Running, Serve

ORIGIN = "https://www.example.org"
MAYOR = ("Who is the mayor of the town?", "who is mayor of the town", "Who was the mayor of our town?")


@pytest.fixture
def running(serve: Serve, settings_for: MakeSettings) -> Running:
    on = {"enabled": True}
    return serve(settings_for("none", plugins={"widget": {"origins": [ORIGIN]}, "curated": on, "insights": on}))


def visit(client: httpx.Client, question: str, visitor: int = 0, **more: object) -> str:
    """Ask in the widget; return the turn's id once it has ended."""
    body = {"question": question, "collection": "docs", "visitor": f"{visitor:032d}", **more}
    answer = client.post("/v1/widget/turns", json=body)
    assert answer.status_code == 200, answer.text
    assert '"type":"done"' in answer.text.replace(" ", "")
    return answer.headers["X-Turn-Id"]


def test_a_visitors_gap_becomes_a_curated_answer_that_the_next_visitor_gets(running: Running) -> None:
    with running.client_as("visitor") as visitors, running.client_as("agent") as agent:
        for n, question in enumerate(MAYOR):
            turn = visit(visitors, question, n)
        visit(visitors, "How long is parental leave?", 1)
        rating = {"turn_id": turn, "visitor": f"{2:032d}", "rating": "down"}
        assert visitors.post("/v1/widget/feedback", json=rating).status_code == 204

        report = agent.get("/v1/insights", params={"collection": "docs"}).json()
        assert (report["turns"], report["people"]) == (4, 3)
        topics = {tuple(sorted(topic["questions"])): topic for topic in report["topics"]}
        mayor = topics[tuple(sorted(MAYOR))]
        assert (mayor["turns"], mayor["earlier"], mayor["rated_down"], mayor["newest"]) == (3, 0, 1, turn)
        assert "mayor" in mayor["name"]
        leave = topics["How long is parental leave?",]
        assert leave["sections"][0]["document_id"] == "leave.md"
        assert leave["unanswered"] == 0
        (gap,) = report["gaps"]
        assert set(gap["questions"]) <= set(MAYOR)
        assert gap["sections"], "what came nearest"
        assert "leave.md" not in report["never_cited"]

        written = agent.post("/v1/collections/docs/curated", json={"questions": [MAYOR[0]], "answer": "Ada is."})
        assert written.status_code == 201, written.text
        turn = agent.get(f"/v1/turns/{visit(visitors, MAYOR[0], 7)}").json()
        assert (turn["answer"], turn["done"]["written"]) == ("Ada is.", written.json()["id"])
        (after,) = agent.get("/v1/insights", params={"collection": "docs"}).json()["gaps"]
        assert after["turns"] == gap["turns"], "the answer of a person is no gap"
        assert after["closed"] == ""
        assert after["draft"].startswith("## Who")
        assert visitors.get("/v1/insights").status_code == 403


def test_outcomes_languages_pages_and_sources_are_counted_and_keep_to_a_filter(running: Running) -> None:
    page = {"url": "https://docs.example/leave.html?from=mail", "title": "Leave"}
    german = "Wie lange dauert die Elternzeit für die Mitarbeiter in diesem Haus?"
    with running.client_as("visitor") as visitors, running.client_as("agent") as agent:
        for n in range(2):
            visit(visitors, "How long is parental leave?", n, page=page, where={"document_id": "leave.md"})
        visit(visitors, german, 3, where={"document_id": "travel.md"})
        report = agent.get("/v1/insights", params={"collection": "docs"}).json()
        assert sum(report["outcomes"].values()) == 3
        assert report["outcomes"]["answered"] >= 2
        assert report["languages"] == {"en": 2, "de": 1}
        assert report["pages"] == [{"page": "https://docs.example/leave/", "turns": 2, "unanswered": 0}]
        assert (report["cited"][0]["document_id"], report["cited"][0]["turns"]) == ("leave.md", 2)
        assert report["filters"] == {"document_id": ["leave.md", "travel.md"]}
        narrow = {"collection": "docs", "where": '{"document_id": "travel.md"}'}
        narrowed = agent.get("/v1/insights", params=narrow).json()
        assert (narrowed["turns"], narrowed["languages"], narrowed["pages"]) == (1, {"de": 1}, [])
        markdown = agent.get("/v1/insights", params={**narrow, "format": "markdown"}).text
        assert "German 1" in markdown
        assert "English" not in markdown
        table = agent.get("/v1/insights", params={"collection": "docs", "format": "csv"}).text
        assert "page,https://docs.example/leave/,2," in table
        assert agent.get("/v1/insights", params={"where": "version=2"}).status_code == 400
        # Whoever reviews a turn sees what was read and searched.
        turn = agent.get(f"/v1/reviews/{report['topics'][0]['newest']}").json()["turn"]
        assert (turn["page"], turn["where"]) == ("https://docs.example/leave/", {"document_id": "leave.md"})


def test_a_gap_is_closed_by_a_person_or_by_a_changed_page(running: Running, tmp_path: Path) -> None:

    def gap(agent: httpx.Client) -> dict[str, Any]:
        (gap,) = agent.get("/v1/insights", params={"collection": "docs", "again": True}).json()["gaps"]
        return dict(gap)

    with running.client_as("visitor") as visitors, running.client_as("agent") as agent:
        turn = visit(visitors, MAYOR[0])
        assert gap(agent)["closed"] == ""
        written = agent.post("/v1/collections/docs/curated", json={"questions": [MAYOR[0]], "answer": "Ada is."})
        assert gap(agent)["closed"] == "curated"
        assert "closed by a person" in agent.get("/v1/insights", params={"again": True, "format": "markdown"}).text
        agent.delete(f"/v1/collections/docs/curated/{written.json()['id']}")
        assert gap(agent)["closed"] == ""
        (tmp_path / "mayor.md").write_text(
            "# Mayor\n\n## Who is the mayor of the town?\n\nThe mayor of the town is Ada.\n"
        )
        running.index("docs", tmp_path / "mayor.md")
        assert gap(agent)["closed"] == "documents"
        # Reviewers see visitors' turns, with what was said before.
        visit(visitors, "And who was it before?")
        review = agent.get("/v1/reviews").json()
        assert turn in {row["turn_id"] for row in review["data"]}
        (later,) = (row for row in review["data"] if row["question"].startswith("And who"))
        detail = agent.get(f"/v1/reviews/{later['turn_id']}").json()
        assert detail["history"][0]["text"] == MAYOR[0]
        answer = agent.post(
            f"/v1/reviews/{later['turn_id']}", json={"verdict": "corrected", "rewrite": "Who was mayor before?"}
        )
        assert answer.is_success, answer.text
    database, who = running.service.core.database, running.service.principal
    (dialog,) = database.read_blocking(lambda c: reviewed.dialogs(c, who, "docs"))
    assert [message.text for message in dialog.turns if message.role == "user"] == [MAYOR[0], "And who was it before?"]


def test_sections_that_one_answer_cites_and_that_disagree_are_shown(model_home: Path) -> None:
    model = open_pairs(Settings(home=model_home))
    assert model is not None
    leave = "Parental leave lasts ten weeks."
    pairs = {
        "Parental leave lasts twelve weeks.": True,
        "Parental leave does not last ten weeks.": True,
        "Parental leave lasts ten weeks in all.": False,
        "Sick leave needs a note from the third day.": False,
    }
    for other, wrong in pairs.items():
        pairs_found = disagreements([cites(leave, other)], model, {})
        assert bool(pairs_found) is wrong, (other, pairs_found)
    apart = {"0.md": {"version": "1"}, "1.md": {"version": "2"}}
    assert disagreements([cites(leave, "Parental leave lasts twelve weeks.")], model, apart) == []


def cites(*quotes: str) -> StoredTurn:
    """A turn that cites a sentence of each of so many documents."""
    citations = [
        {"n": n, "passage_id": str(n), "document_id": f"{n}.md", "title": "Leave", "heading": ["Leave"], "page": None,
         "quote": quote, "start": 0, "end": len(quote), "answer_start": 0, "answer_end": 1}
        for n, quote in enumerate(quotes)
    ]  # fmt: skip
    done = {"turn_id": "t", "conversation_id": None, "status": "quoted", "answer": "", "citations": citations}
    done |= {"support": [], "dropped_citations": 0, "seconds": {}}
    empty = dict.fromkeys(("conversation_id", "search_for", "finished", "rewrite", "evidence", "error", "feedback"))
    turn = {"id": "t", "collection": "docs", "question": "How long?", "status": "quoted", "answer": "", "created": 1.0}
    return StoredTurn.model_validate({**empty, **turn, "done": done})


def test_insights_are_off_until_an_operator_switches_them_on(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none"))
    with running.client() as operator:
        refused = operator.get("/v1/insights")
        assert refused.status_code == 403
        assert "plugins.insights.enabled" in refused.text
        assert "What people ask" not in operator.get("/workbench/health").text


def test_reports_and_tables_hold_no_markup_and_no_formula_of_a_visitor(running: Running) -> None:
    hostile = '=HYPERLINK("https://evil.example") <img src=x onerror=owned()> | **bold** ;=1+2;＝3'
    with running.client_as("visitor") as visitors, running.client_as("agent") as agent:
        visit(visitors, hostile)
        report = agent.get("/v1/insights", params={"days": 2, "format": "markdown"})
        table = agent.get("/v1/insights", params={"format": "csv"})
    assert report.headers["content-type"].startswith("text/markdown")
    assert table.headers["content-type"].startswith("text/csv")
    assert "insights.csv" in table.headers["content-disposition"]
    assert report.text.startswith("# What was asked in 2 days\n\nQuestions: 1, people: 1.")
    assert "<img" not in report.text.replace("\\<", "")
    assert "**bold**" not in report.text
    assert "## Topics" in report.text
    rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(table.text)))
    assert rows
    assert all(row["question"].startswith("'=HYPERLINK") for row in rows)
    assert not any(cell.startswith(("=", "＝")) for row in table.text.splitlines() for cell in row.split(";"))


@pytest.mark.parametrize(
    "text",
    ["~~~", "---", "===", "- x", "+ x", "12. x", "3) x", "# x", "> x", "&lt;b&gt;", "| a |", "<b>x</b>", "![x](y)"],
)
def test_a_question_stays_words_wherever_markdown_shows_it(text: str) -> None:
    assert MarkdownIt("commonmark").render(escaped(text)).strip() == f"<p>{escape(text)}</p>"


def test_without_turns_there_is_nothing_to_say(running: Running) -> None:
    with running.client() as agent:
        report = agent.get("/v1/insights", params={"days": 1, "collection": "docs"}).json()
        assert (report["turns"], report["topics"], report["gaps"]) == (0, [], [])
        assert len(report["never_cited"]) == 3
        assert agent.get("/v1/insights", params={"collection": "nowhere"}).status_code == 404


class TestPlugin(PluginContract):
    name = "insights"
