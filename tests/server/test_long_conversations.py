"""Conversations of many turns and of many subjects, searched with the packaged models over a shop's pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from index.collection import Collection
from index.encoders import Encoder
from index.indexer import index_paths
from rewriter.protocol import Conversation, Message
from server.rewriters import open_reranker, open_rewriter
from server.settings import RetrievalSettings, Settings
from server.turn.search import TurnSearch

PAGES = {
    "shipping.md": """# Shipping
## Standard delivery
Standard delivery takes three to five working days and costs 4.90 euros. Orders above 60 euros are delivered free.
## Express delivery
Express delivery arrives on the next working day if you order before noon. It costs 12.50 euros.
## Other countries
We deliver to Austria and Switzerland. Parcels to Switzerland take up to ten days and customs duties are yours to pay.
""",
    "returns.md": """# Returns
## Sending something back
You may return goods within 30 days. Print the return label from your account and drop the parcel at any post office.
## Refunds
The money goes back to the card that you paid with, within a week of the parcel's arrival. Gift cards are not refunded.
""",
    "payment.md": """# Payment
## Ways to pay
You can pay by credit card, by bank transfer or on invoice.
## Paying on invoice
An invoice is due after 14 days. It is offered from the second order on, up to 200 euros.
""",
    "account.md": """# Your account
## Changing the address
Open Profile, then Addresses. An address can be changed until the parcel has left our warehouse.
## Forgotten password
Choose "Forgotten password" on the sign-in page. A link is sent to you that is valid for one hour.
## Deleting the account
Write to the privacy desk. Invoices are kept for ten years, everything else is erased.
""",
    "repairs.md": """# Repairs
## Warranty
Coffee machines have a warranty of two years, grinders of five. The receipt is enough as proof.
## Sending in a machine
Empty the water tank, pack the machine in its box and describe the fault on the repair form. A repair takes two weeks.
""",
    "machines.md": """# Coffee machines
## Descaling
Descale the machine every three months. Dissolve one sachet in a litre of water and start the descaling programme.
## The red lamp
A red lamp that blinks means that the water tank is empty. A steady red lamp means that the brewing unit is blocked.
""",
    "beans.md": """# Coffee beans
## Storing
Keep beans in a closed tin away from light. Do not freeze them.
## Subscriptions
A subscription sends beans every two or four weeks. It can be paused for up to three months.
""",
    "shops.md": """# Our shops
## Opening hours
The shop in Graz is open from nine to six, on Saturdays until one. On Sundays it is closed.
## Tastings
Tastings take place on the first Friday of each month. A seat costs eight euros and must be booked.
""",
}

SIX_SUBJECTS = [
    ("how much is express delivery?", "shipping.md", "It costs 12.50 euros."),
    ("and the normal one?", "shipping.md", "Standard delivery costs 4.90 euros."),
    ("can i pay by invoice?", "payment.md", "Yes, from the second order on, up to 200 euros."),
    ("when is it due?", "payment.md", "After 14 days."),
    ("what does the blinking red lamp mean?", "machines.md", "The water tank is empty."),
    ("and if it doesn't blink?", "machines.md", "The brewing unit is blocked."),
    ("something else: how do i pause my bean subscription?", "beans.md", "It can be paused for up to three months."),
    ("i forgot my password", "account.md", "Choose Forgotten password on the sign-in page. A link is sent to you."),
    ("how long is that link valid?", "account.md", "One hour."),
    ("how long is the warranty of a grinder?", "repairs.md", "Five years."),
    ("and of the machines?", "repairs.md", "Two years."),
    ("is the shop in Graz open on sundays?", "shops.md", "No, it is closed on Sundays."),
    ("and on saturdays?", "shops.md", "Until one."),
]


@pytest.fixture(scope="module")
def search(model_home: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TurnSearch]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "pages").mkdir()
    for name, text in PAGES.items():
        (folder / "pages" / name).write_text(text, "utf-8")
    index_paths(folder, "shop", [folder / "pages"], encoder)
    settings = Settings(home=model_home, retrieval=RetrievalSettings(profile={"rerank_seconds": 60}))
    with closing(Collection.open(folder, "shop", encoder)) as collection:
        yield TurnSearch(
            collection=lambda _: collection,
            rewriter=open_rewriter(settings),
            settings=settings,
            reranker=open_reranker(settings),
        )


def pages_found(search: TurnSearch, turns: list[tuple[str, str, str]]) -> list[str]:
    """Search each question after the turns before it; return the document of the first hit of each."""
    first, messages = [], list[Message]()
    for question, _, answer in turns:
        found = search.find(question, collection="shop", conversation=Conversation(tuple(messages)), k=5)
        first.append(found.hits[0].passage.document_id)
        messages += [Message("user", question), Message("assistant", answer)]
    return first


def test_a_conversation_that_changes_its_subject_six_times_finds_each_page(search: TurnSearch) -> None:
    assert pages_found(search, SIX_SUBJECTS) == [page for _, page, _ in SIX_SUBJECTS]


@pytest.mark.extended
def test_after_thirty_turns_a_new_subject_and_its_follow_up_are_found(search: TurnSearch) -> None:
    pages = pages_found(search, [*SIX_SUBJECTS, *SIX_SUBJECTS[:-2], *SIX_SUBJECTS[4:10], *SIX_SUBJECTS[-2:]])
    assert len(pages) == 32
    assert pages[-2:] == ["shops.md", "shops.md"]
