"""Pages as pictures, and where on them the evidence stands."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from reportlab.pdfgen.canvas import Canvas

from index.loaders.sandbox import PagePicture
from server.chat import collections as collection_service
from tests.server.test_api_faults import begin


def bicycles() -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(400, 600))
    canvas.drawString(60, 500, "Bicycles are parked in the cellar.")
    canvas.showPage()
    canvas.drawString(60, 300, "Tandems are parked on the roof.")
    canvas.save()
    return buffer.getvalue()


def uploaded(running: Any, client: Any, data: bytes, name: str = "parking.pdf") -> None:
    answer = client.post("/v1/collections/docs/documents", files={"file": (name, data)})
    assert running.finished(answer.json()["id"]).state == "done"


def test_evidence_names_its_box_and_the_page_shows_it_there(running: Any) -> None:
    from PIL import Image

    with running.client() as client:
        uploaded(running, client, bicycles())
        found = client.post("/v1/search", json={"query": "where are tandems parked", "collection": "docs"}).json()
        (box,) = found["passages"][0]["boxes"]
        assert (box["page"], found["passages"][0]["page"]) == (2, 2)
        answer = client.get("/v1/collections/docs/images/uploads/parking.pdf", params={"page": 2, "width": 800})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
        assert (answer.headers["x-page-width"], answer.headers["x-page-height"]) == ("400", "600")
        picture = Image.open(io.BytesIO(answer.content)).convert("L")
        assert picture.size == (800, 1200)
        left, top, right, bottom = picture.point(lambda value: 255 * (value < 128)).getbbox()
        assert 2 * box["x0"] - 2 <= left < right <= 2 * box["x1"] + 2
        assert 2 * box["y0"] - 2 <= top < bottom <= 2 * box["y1"] + 2


@pytest.mark.parametrize(
    "document",
    [
        "nothing.pdf", "../uploads/docs/uploads/parking.pdf", "uploads/../uploads/parking.pdf", "/etc/passwd",
        "travel.md",
    ],
)  # fmt: skip
def test_no_page_is_shown_of_what_is_no_document_with_pages(running: Any, document: str) -> None:
    with running.client() as client:
        uploaded(running, client, bicycles())
        for name in (
            quote(document, safe=""),
            quote(quote(document, safe=""), safe=""),
            document.replace("../", "..%2f"),
        ):
            answer = client.get(f"/v1/collections/docs/images/{name}?page=1")
            assert answer.status_code == 404, (name, answer.text)


def test_a_page_that_is_not_there_or_has_changed_says_so(running: Any) -> None:
    with running.client() as client:
        uploaded(running, client, bicycles())
        address = "/v1/collections/docs/images/uploads/parking.pdf?page={}"
        assert client.get(address.format(3)).status_code == 404
        assert client.get(address.format(0)).status_code == 400
        assert client.get(address.format(1) + "&width=100000").status_code == 400
        (path,) = Path(running.service.settings.home, "uploads").rglob("parking.pdf")
        path.write_bytes(bicycles() + b"\n%")
        assert client.get(address.format(2)).json()["error"]["code"] == "file_changed"
        path.unlink()
        assert client.get(address.format(2)).status_code == 404


def test_a_turn_is_answered_while_a_page_is_drawn(running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, answered = threading.Event(), threading.Event()

    def draw(*_: object) -> PagePicture:
        begun.set()
        assert answered.wait(120)
        return PagePicture(b"", 1.0, 1.0)

    monkeypatch.setattr(collection_service, "draw", draw)
    with running.client() as client, ThreadPoolExecutor(1) as beside:
        uploaded(running, client, bicycles())
        drawn = beside.submit(client.get, "/v1/collections/docs/images/uploads/parking.pdf?page=1")
        assert begun.wait(120)
        conversation = begin(client)
        answer = client.post(f"/v1/conversations/{conversation}/turns", json={"question": "Where are bicycles parked?"})
        assert "event: done" in answer.text
        answered.set()
        assert drawn.result(60).status_code == 200
