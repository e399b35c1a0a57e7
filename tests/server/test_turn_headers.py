"""Lines of an answer that are a passage's header."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.turn.events import Evidence
from server.turn.filters import HeaderFilter
from server.turn.prompt import header


def passage(n: int, title: str, *heading: str) -> Evidence:
    return Evidence(
        n=n,
        passage_id=str(n),
        document_id="d",
        title=title,
        heading=list(heading),
        page=None,
        start=0,
        end=4,
        text="Text",
        source="d",
        score=1.0,
        ranks={},
    )


EVIDENCE = (passage(1, "Documents", "Which files?"), passage(2, "Leave"), passage(3, ""))


def filtered(text: str, evidence: Sequence[Evidence] = EVIDENCE, size: int = 3) -> str:
    headers = HeaderFilter(evidence)
    pieces = [headers.feed(text[i : i + size]) for i in range(0, len(text), size)]
    return "".join(pieces) + headers.finish()


def test_lines_that_are_headers_are_left_out() -> None:
    assert header(EVIDENCE[0]) == "Documents › Which files?"
    text = "[1] Documents › Which files?\nAll of them [1].\n[1]Documents › Which files?  \n[2] Leave"
    assert filtered(text) == "All of them [1].\n"


@pytest.mark.parametrize(
    "text",
    ["Leave [2]", "Leave\n", "It is called [2] Leave\n", "[2] Leave is paid.\nSo is\nLeave.", "[2] Lea", "[2]"],
)
def test_what_may_be_an_answer_stays(text: str) -> None:
    assert filtered(text) == text


def test_without_evidence_everything_stays() -> None:
    assert filtered("[1] Leave\n", ()) == "[1] Leave\n"


@given(st.text(alphabet="Leave[2] \n.x", max_size=60), st.integers(1, 7))
def test_what_comes_out_does_not_depend_on_the_cuts(text: str, size: int) -> None:
    assert filtered(text, size=size) == filtered(text, size=100)
