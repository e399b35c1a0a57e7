"""The trace explorer: reached by one click, with all views at 2,000 calls, and nothing in a trace is markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from server.store.records import Trace, TraceStep
from tests.ui.site import violations

if TYPE_CHECKING:
    from tests.ui.conftest import Visitor
    from tests.ui.site import Site

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>window.owned=1</script><img src=x onerror='window.owned=1'>"


def large(turn: str) -> Trace:
    """2,000 calls below the turn: 50, with 39 below each."""
    prompt = (
        {"message": 0, "role": "system", "literal": "Answer. "},
        {"message": 1, "role": "user", "value": HOSTILE, "expression": "question"},
        {"message": 1, "role": "user", "value": "again", "expression": HOSTILE},
    )
    groups = []
    for n in range(50):
        below = tuple(
            TraceStep(
                name="vote",
                started=2.0 + n,
                seconds=(n * 39 + k) / 1e4,
                id=f"{n}-{k}",
                parent=str(n),
                prompt=prompt if k == 0 else (),
                values={"score": k % 7, "note": HOSTILE},
            )
            for k in range(39)
        )
        groups.append(TraceStep(name="paragraph", started=2.0 + n, seconds=1.0, id=str(n), calls=below))
    return Trace(
        turn_id=turn, conversation_id=None, collection="docs", collection_version="v", engine="none", status="answered",
        created=1.0, seconds=60.0, steps=tuple(groups), question=HOSTILE, span_id="root",
    )  # fmt: skip


@pytest.mark.extended
def test_a_trace_is_explored(visitor: Visitor, site: Site) -> None:
    page = visitor.page
    visitor.ask("How often should I descale the kettle?")
    link = page.locator(".turn:last-child a[href^='/traces/']")
    turn = (link.get_attribute("href") or "").rpartition("/")[2]
    link.evaluate("link => link.removeAttribute('target')")
    link.click()
    page.wait_for_selector("#rows button.name")
    names = page.locator("#rows button.name").all_inner_texts()
    assert names[:3] == ["turn", "wait", "rewrite"]
    # The prompt is there at once and first; inputs, values and output are folded.
    parts = page.locator("#detail > div > div > *").evaluate_all("parts => parts.map(part => part.localName)")
    assert parts[:4] == ["h2", "p", "p", "pre"]
    assert page.locator("#detail details[open]").count() == 0 < page.locator("#detail details").count()
    assert violations(page) == []
    page.click("[data-action=theme]")
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.focus("button.name:text-is('generate')")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "generate", "the focus stays where it was"
    marks = page.locator("#detail mark")
    assert "question" in marks.evaluate_all("found => found.map(one => one.title)")
    assert set(marks.evaluate_all("found => found.map(one => one.className)")) == {"", "two"}

    page.click(".again summary")
    page.fill(".again [name=rewrite]", HOSTILE)
    page.fill(".again [name=drop]", "1")
    page.press(".again [name=drop]", "Enter")
    page.wait_for_selector(".again[open] p:has-text('Now (')")
    assert page.locator("#rows tr:has-text('changed')").count() > 0
    assert page.input_value(".again [name=rewrite]") == HOSTILE

    page.fill(".again [name=rewrite]", "")
    page.fill(".again [name=drop]", "")
    page.select_option(".again [name=model]", "none")
    with page.expect_navigation():
        page.click(".again button:text-is('Play again')")
    page.wait_for_selector(".again[open] p:has-text('Now (')")
    page.goto(f"{site.address}/traces/{turn}")

    trace = large(turn).model_dump_json()
    site.ask(
        site.service.core.database.write(
            lambda c: c.exec_driver_sql("UPDATE traces SET trace = ? WHERE turn_id = ?", (trace, turn)).rowcount
        )
    )
    page.reload()
    page.wait_for_selector("#rows tr >> nth=2000")
    assert page.locator("#rows tr").count() == 2001
    page.click("#fold")
    assert page.locator("#rows tr").count() == 51
    page.select_option("#function", "vote")
    page.click("#columns button:text-is('score')")
    assert page.locator("#rows tr").count() == 1950
    assert page.locator("#rows tr:first-child td:nth-child(4)").inner_text() == "6"
    page.fill("#filter", "again")
    assert page.locator("#rows tr").count() == 50
    page.click("#rows tr:first-child button.name")
    assert HOSTILE in page.locator("#detail").inner_text()
    assert page.locator("#detail mark").first.get_attribute("title") == "question"

    page.goto(f"{site.address}/traces/{turn}?with={turn}")
    page.wait_for_selector("#rows tr >> nth=2000")
    page.click("#rows button.name >> nth=1")
    assert page.locator("#detail .sides > div").count() == 2
    assert page.locator("img").count() == 0
    assert page.evaluate("window.owned") is None
