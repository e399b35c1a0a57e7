"""The picker of version, product and language above the question, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import visitor
from tests.ui.site import violations

if TYPE_CHECKING:
    from tests.ui.conftest import Visitor
    from tests.ui.site import Site

__all__ = ["visitor"]

pytestmark = [pytest.mark.browser, pytest.mark.extended]

KEPT = {"9.2": "seven", "10.0": "thirty", '"><img src=x onerror=window.owned=1>': "no"}


@pytest.fixture(scope="module")
def site(model_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server without a model over a page for each version, one of which is markup."""
    from tests.ui.site import running_site

    home, documents = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("documents")
    (home / "models").symlink_to(model_home / "models")
    for n, (version, days) in enumerate(KEPT.items()):
        text = f"# Backups\n\n## How long is a backup kept?\n\nA backup is kept for {days} days.\n"
        (documents / f"{n}.md").write_text(f"---\nversion: '{version}'\n---\n{text}", "utf-8")
    with running_site(home, documents, "none") as running:
        yield running


def test_a_search_keeps_to_what_is_picked(visitor: Visitor) -> None:
    page = visitor.page
    picker = page.get_by_label("Version")
    assert set(picker.locator("option").all_inner_texts()) == {"All", *KEPT}
    assert page.locator("[data-part=filters] select").count() == 1, "there is no choice of what no page has"
    assert violations(page) == []
    picker.select_option("10.0")
    visitor.ask("How long is a backup kept?", "quoted")
    assert "thirty days" in visitor.last(".answer")
    assert "seven days" not in visitor.last(".answer")
    picker.select_option("9.2")
    visitor.ask("And how long is it now?", "quoted")
    assert "seven days" in visitor.last(".answer")
    assert page.evaluate("window.owned") is None
