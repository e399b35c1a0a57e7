"""The shape of quotes on pages as they are: tables by their row, whole code and steps, words for links, no stubs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.turn.answer import AnswerReader
from server.turn.events import Evidence
from server.turn.evidence import SentencePlace, best_sentences, nearest_sentences
from server.turn.quote_shapes import LONGEST, asks_to_do, is_stub, quote_text
from server.turn.support import Support, SupportScorer
from tests.server.turn_fakes import evidence
from text.sentences import table_rows

COMPATIBILITY = """\
Which Go a release needs depends on its age. See the [support policy](../policy.md) too.

| Release | Go   | Supported until |
|---------|------|-----------------|
| 2.37    | 1.18 | 2023-07-31      |
| 2.45    | 1.20 | 2024-07-31      |
| 2.5     | 1.10 | 2019-01-31      |
| 2.53    | 1.21 | 2025-07-31      |
| 2.54.x  | 1.22 | 2025-12-31      |
| 2.55    | 1.23 | 2026-07-31      |
| 2.56    | 1.23 | 2026-12-31      |

Older releases are not built any more.
"""


@pytest.fixture(autouse=True)
def without_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quote each sentence alone: what is tested here is its shape."""
    monkeypatch.setattr("server.turn.evidence.GROWN", 0)


def reading(passages: Sequence[Evidence], *words: str) -> dict[SentencePlace, float]:
    """The chances by a head that likes the sentences with one of these words, the first word most."""
    scorer, chances = SupportScorer(passages), dict[SentencePlace, float]()
    for passage in passages:
        rows = table_rows(passage.opened)
        for match in scorer.matches("", passage.n):
            text = rows.get(match.start - passage.start) or match.quote
            liked = max((0.9 * 0.6**n for n, word in enumerate(words) if word in text), default=0.001)
            chances[passage.n, match.start] = liked
    return chances


def shown(text: str, question: str, *words: str) -> str:
    """The answer that a reader sees, quotes as block quotations."""
    passages = evidence(text)
    quotes, _ = nearest_sentences(question, passages, chances=reading(passages, *words) if words else None)
    reader = AnswerReader(passages)
    for quote in quotes:
        assert text[quote.start : quote.end] == quote.quote
        for event in reader.quote(quote):
            if event.type == "citation":
                assert text[event.start : event.end] == event.quote
    return reader.answer().text


HEAD = "> | Release | Go   | Supported until |\n> |---------|------|-----------------|\n"


@pytest.mark.parametrize("liked", ["2.53", "2.37"])
def test_a_row_is_the_one_that_the_question_names_and_stands_below_its_header(liked: str) -> None:
    # Whatever row the cross-encoder likes.
    text = shown(COMPATIBILITY, "which go for 2.53?", liked, "Release")
    assert text == HEAD + "> | 2.53    | 1.21 | 2025-07-31      |\n>\n> [1]"


def test_what_a_follow_up_names_itself_counts_before_what_it_leans_on() -> None:
    passages = evidence(COMPATIBILITY)
    read = reading(passages, "2.37", "Release")
    follow_up = "which go for 2.37? and for 2.53?"
    quotes, _ = nearest_sentences(follow_up, passages, chances=read, typed="and for 2.53?")
    assert [quote.quote.split()[1] for quote in quotes] == ["2.53"]
    quotes, _ = nearest_sentences("which go for 2.45? and until when?", passages, chances=read, typed="and until when?")
    assert [quote.quote.split()[1] for quote in quotes] == ["2.45"]


COSTS = """| Method | Germany | Austria |
|---|---|---|
| Standard | 5 EUR | 10 EUR |
| Express | 13 EUR | not offered |
"""


def test_of_a_small_table_a_word_of_the_conversation_names_no_row() -> None:
    passages = evidence(COSTS)
    read = reading(passages, "Express")
    quotes, _ = nearest_sentences(
        "express? and what does it cost", passages, chances=read, typed="and what does it cost"
    )
    assert [quote.quote for quote in quotes] == [COSTS.strip()]
    quotes, _ = nearest_sentences("what does it cost? and express", passages, chances=read, typed="and express")
    assert [quote.quote for quote in quotes] == ["| Express | 13 EUR | not offered |"]


WARRANTY = "All devices have a warranty of two years. It does not cover limescale. Repairs take ten days."


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        (
            WARRANTY,
            "limescale",
            "> All devices have a warranty of two years. **It does not cover limescale.** Repairs take",
        ),
        (
            WARRANTY.replace("not", "**not**"),
            "limescale",
            "> All devices have a warranty of two years. It does **not**",
        ),
        (WARRANTY.replace(" ", "\n- ").removeprefix("All"), "limescale.", "limescale."),
        ("它不包括水垢。维修需要十天。所有设备保修两年。", "维修", "> 它不包括水垢。维修需要十天。"),
    ],
)
def test_the_key_sentence_of_a_longer_quote_is_bold(
    monkeypatch: pytest.MonkeyPatch, text: str, key: str, expected: str
) -> None:
    monkeypatch.setattr("server.turn.evidence.GROWN", 600)
    monkeypatch.setattr("server.turn.evidence.STEP", 1e-6)
    assert expected in shown(text, "does it cover limescale?", key)


@pytest.mark.parametrize("question", ["which go for 2.4?", "and 2.530?", "2.3 needs which go"])
def test_where_no_row_has_the_number_none_is_quoted(question: str) -> None:
    assert "|" not in shown(COMPATIBILITY, question, "Release")


def test_a_small_table_is_quoted_whole_where_no_row_is_named() -> None:
    table = "| Strategy | Behavior |\n|---|---|\n| `combined` | One stream. |\n| `separate` | Two streams. |"
    text = f"Hooks are rendered too.\n\n{table}\n\nBye now."
    quoted = "> " + table.replace("\n", "\n> ") + "\n>\n> [1]"
    assert shown(text, "any other way?", "One", "Two") == quoted
    assert "separate" not in shown(text, "what does combined do?", "One")


def test_breaks_and_links_in_cells_are_words() -> None:
    broken = "Set `TZ`.<br/><br/>\n<br>\nThe zone of the clock."
    assert shown(broken, "is TZ the zone of the clock?", "clock") == "> The zone of the clock. [1]"
    text = "| Variable | Use |\n|---|---|\n| `TZ` | The zone.<br/>See [the list](https://example.org). |\n"
    assert "| `TZ` | The zone. See the list. |" in shown(text, "what is TZ for?", "TZ")


def opened(text: str, opening: str) -> Evidence:
    """A passage that begins within a block which `opening` opens, at 500 in its document."""
    [passage] = evidence(text)
    return passage.model_copy(update={"opening": opening, "start": 500, "end": 500 + len(text)})


def quotes_of(passage: Evidence, question: str, *words: str) -> tuple[str, list[str]]:
    quotes, _ = nearest_sentences(question, [passage], chances=reading([passage], *words))
    reader = AnswerReader([passage])
    for quote in quotes:
        assert passage.text[quote.start - 500 : quote.end - 500] == quote.quote
        reader.quote(quote)
    return reader.answer().text, [quote.quote for quote in quotes]


def test_a_row_of_a_passage_that_begins_within_a_table_stands_below_the_header_too() -> None:
    rows = "".join(f"| 2.{n} | 1.{n} |\n" for n in range(40, 60))
    shown, [quote] = quotes_of(opened(rows, "| Release | Go |\n|---|---|"), "which go for 2.53?", "2.41", "Release")
    assert quote == "| 2.53 | 1.53 |"
    assert shown == "> | Release | Go |\n> |---|---|\n> | 2.53 | 1.53 |\n>\n> [1]"


def test_the_rest_of_code_says_nothing_alone_and_is_shown_as_code() -> None:
    passage = opened("run --all\nstop now\n```\n\nAfter that all is stopped now.", "```sh")
    _, quotes = quotes_of(passage, "how do I stop all?", "stop")
    assert quotes == ["After that all is stopped now."]
    rest = Support(1, 1.0, "stop now\n```", 510, 522)
    assert quote_text(rest, passage) == "```sh\n…\nstop now\n```"


INSTALL = """\
Helm can be installed by a package manager. To install it on Debian, add our repository and run these commands.

```bash
curl -fsSL https://example.org/key.gpg | sudo tee /usr/share/keyrings/tool.gpg > /dev/null

echo "deb [signed-by=/usr/share/keyrings/tool.gpg] https://example.org/apt any main" | sudo tee /etc/apt/tool.list
sudo apt-get install tool
```

Windows is different.
"""


def test_code_below_a_sentence_with_a_full_stop_is_quoted_whole() -> None:
    answer = shown(INSTALL, "how do I install it on Debian?", "on Debian")
    assert answer == "> " + INSTALL[44 : INSTALL.index("\n\nWindows")].replace("\n", "\n> ") + "\n>\n> [1]"


@pytest.mark.parametrize("end", ["", " in"])
def test_code_in_the_middle_of_a_sentence_is_quoted_with_it(end: str) -> None:
    text = f"You can test whether blocking works by trying{end}\n\n``` plain\nnslookup pi.hole\n```\n\nand more."
    assert "> nslookup pi.hole\n> ```" in shown(text, "is it working?", "by trying")


def test_long_code_is_left_out_where_nobody_asks_for_it() -> None:
    code = "```yaml\n" + "key: value\n" * 80 + "```"
    text = f"The values are merged.\n\n{code}\n"
    assert "key" not in shown(text, "are values merged?", "merged")
    assert code.replace("\n", "\n> ") in shown(text, "how do I merge the values?", "merged")


def test_code_that_the_passage_ends_in_is_closed_with_a_mark() -> None:
    text = "Write this file:\n\n```yaml\na: 1\nb: 2"
    assert shown(text, "which file do I write?", "Write") == (
        "> Write this file:\n> \n> ```yaml\n> a: 1\n> b: 2\n> …\n> ```\n>\n> [1]"
    )


STEPS = """\
To move a chart, do this in order:

1. Pull it:

   ```sh
   helm pull old/chart
   ```

2. Log in to the [registry](registry.md).
3. Push it with `helm push`.

After that the old repository can go.
"""


def test_steps_are_quoted_whole_for_one_of_them() -> None:
    answer = shown(STEPS, "how do I push a chart to the new registry?", "Push it")
    expected = STEPS[: STEPS.index("\n\nAfter")].replace("[registry](registry.md)", "registry")
    assert answer == "> " + expected.replace("\n", "\n> ") + " [1]"


def test_steps_go_on_behind_code_that_is_not_indented() -> None:
    text = "Do:\n\n1. Stop it:\n```sh\nstop\n```\n2. Change the file\n3. Start it again\n\nDone."
    answer = shown(text, "how do I restart it with changes?", "Start it")
    assert "> 1. Stop it:" in answer
    assert "> 3. Start it again" in answer


def test_long_steps_are_cut_at_a_line_with_a_mark() -> None:
    steps = "\n".join(f"{n}. Turn the valve number {n} slowly to the left until it clicks." for n in range(1, 60))
    answer = shown(f"Shut it down like this.\n\n{steps}\n", "how do I turn the valves?", "valve number 7 ")
    assert answer.startswith("> 1. Turn")
    assert answer.endswith("clicks.\n> \n> … [1]")
    assert len(answer) < LONGEST + 200


LINKED = """\
> Charts are kept in the [library of charts](https://example.org/charts), as \
[`values.yaml`](values.md) says; an example is [here](https://example.org/demo).
> ![diagram](img/x.png)

:::note[Mind the gap]
Set `level` to 3.<br/>
Or use the web page.
:::
"""


def test_links_boxes_and_quotations_in_a_quote_are_words() -> None:
    passages = evidence(LINKED)
    whole = Support(1, 1.0, LINKED.strip(), 0, len(LINKED.strip()))
    assert quote_text(whole, passages[0]).split("\n") == [
        "Charts are kept in the library of charts, as `values.yaml` says; an example is here (https://example.org/demo).",
        "diagram",
        "",
        "**Mind the gap**",
        "Set `level` to 3.",
        "Or use the web page.",
    ]


@pytest.mark.parametrize(
    "stub",
    [
        "See also [Charts](charts.md) and [the reference](ref.md).",
        "**Next steps**",
        "## Next steps",
        "Next steps:\n\n- [Install the tool](install.md)\n- [Write a chart](chart.md)",
        "- [Install the tool](install.md)",
        "[Read more about charts](https://example.org/charts).",
        "TODO: describe how the chart is installed",
        "Read more:",
        "![the chart](chart.png)",
        ":::tip",
        "https://charts.example.org/<organisation>/the-chart",
        "For more information see [the chart guide](guide.md).",
    ],
)
def test_a_stub_is_no_answer(stub: str) -> None:
    question = "how is the chart installed, and where do I read more about charts?"
    assert best_sentences(question, evidence(stub)) == []
    assert best_sentences(question, evidence(stub), chances=reading(evidence(stub), "e")) == []


@pytest.mark.parametrize(
    "text",
    [
        "See `values.yaml` for the list of ports.",
        "The [chart](c.md) is installed by `helm install`.",
        "Further reading of the log is done by the agent.",
        "- `--wait`: [waits](w.md) until all pods are ready",
    ],
)
def test_a_sentence_with_links_is_no_stub(text: str) -> None:
    assert not is_stub(text)


@pytest.mark.parametrize(
    "question", ["how do i install it", "give me the command for that", "Wie installiere ich das?"]
)
def test_a_way_to_do_something_is_asked_for(question: str) -> None:
    assert asks_to_do(question)


PARTS = st.sampled_from(
    ["| a | b |", "|---|---|", "| 1.2 | x |", "```sh", "```", "1. One:", "2. Two", "   indented", "- item", "Words.",
     "It is so:", "", ":::note", "> quoted", "# head", "[a](b)", "1) x", "    code"]
)  # fmt: skip


@given(st.lists(PARTS, max_size=14).map("\n".join), st.sampled_from(["how do I do 1.2?", "is it so", "what is one"]))
def test_any_page_is_quoted_word_for_word(text: str, question: str) -> None:
    if text.strip():
        shown(text, question, "1", "W", "i")
        shown(text, question)


ITEMS = "- Worn helmets\n\n  They are not tested again.\n- Food and drinks\n- Goods made to measure"


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        (f"Keep the receipt. We do not take back:\n\n{ITEMS}", "We do not take back:\n\n"),
        (ITEMS, "**Leave**\n\n"),
        (f"Keep the receipt.\n\n{ITEMS}", ""),
        (f"```sh\nls\n```\n\n{ITEMS}", ""),
        (f"We do not take back {'any of these goods ' * 12}:\n\n{ITEMS}", ""),
    ],
)
def test_above_an_item_stands_what_its_list_is_about(text: str, topic: str) -> None:
    expected = f"{topic}- Food and drinks [1]".replace("\n", "\n> ")
    assert shown(text, "can i return food?", "Food") == f"> {expected}"


def test_a_release_names_the_row_of_its_series() -> None:
    assert "| 2.54.x  | 1.22 |" in shown(COMPATIBILITY, "until when is 2.54.3 supported?", "2.54")
