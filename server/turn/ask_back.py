"""Ask back: the question that names what may be meant, as a text that is known again.

`server.turn.decision` says when; nothing is asked twice in a row. The question's first line names what the sections
found have in common, or what the conversation speaks of; below it they stand as a numbered list, without that. A
question back is known by its text, in any of the languages, so the history that a client keeps is enough to understand
the reply (`server.turn.ask_reply`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

import regex

from rewriter.protocol import Conversation
from server.turn.events import Alternative, Evidence
from text.sanitize import sanitize_line
from text.translation import everywhere, gettext, message
from text.words import stems

READ = 5
"""Passages whose sections are offered."""
SEPARATOR = " › "
_MOST_ALTERNATIVES = 4
_LONGEST_ALTERNATIVE = 80
_LONGEST_TOPIC = 60
_MARKUP = regex.compile(r"[`*\[\]<>|\\#~{}“”]|\w+://|(?<!\w)_+|_+(?!\w)|&(?=#?\w+;)|^[\s+=-]+|(?<=^\d{1,9})[.)]")
_ITEM = regex.compile(r"\d{1,2}\. (\S.*)")

_ASKS = message("I cannot tell yet what you need. Which of these is it about, or what exactly happens?")
_ASKS_ABOUT = message("About “%(topic)s”: which of these is it, or what exactly happens?")


@dataclass(frozen=True, slots=True)
class QuestionBack:
    """A question back: at least two alternatives, and the topic if one is known.

    An alternative of a question back that was read from a history is numbered by its place.
    """

    alternatives: tuple[Alternative, ...]
    topic: str = ""

    @property
    def text(self) -> str:
        """The question in the language spoken, with a numbered list below it."""
        asks = gettext(_ASKS_ABOUT, topic=self.topic) if self.topic else gettext(_ASKS)
        lines = "\n".join(f"{n}. {alternative.text}" for n, alternative in enumerate(self.alternatives, 1))
        return f"{asks}\n\n{lines}"


def question_back(evidence: Sequence[Evidence], about: Sequence[str] = ()) -> QuestionBack | None:
    """Return the question which section is meant; None where the first passages stand in one: then none is to choose.

    Each section is told once, by what of its title and heading path it does not share with all others, without any
    markup. A page or section that holds another one that is offered gives way to it where enough remain. The topic is
    the title or heading that all share, else the first term of the conversation in `about` that stands in each passage.
    """
    paths: dict[tuple[str, ...], Evidence] = {}
    for passage in evidence[:READ]:
        if path := path_of(passage.title or passage.document_id, passage.heading):
            paths.setdefault(path, passage)
    inner = {path: passage for path, passage in paths.items() if not any(_holds(path, other) for other in paths)}
    paths = inner if len(inner) > 1 else paths
    # Something must remain of each.
    shared = [
        parts[0]
        for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*(path[:-1] for path in paths), strict=False))
    ]
    offered: dict[str, tuple[str, Evidence]] = {}
    for path, passage in paths.items():
        text = _shown(path[len(shared) :])
        offered.setdefault(text.casefold(), (text, passage))
    found = list(offered.values())[:_MOST_ALTERNATIVES]
    if len(found) < 2:
        return None
    topic = _short(shared[-1], _LONGEST_TOPIC) if shared else _spoken_of(about, [passage for _, passage in found])
    return QuestionBack(tuple(Alternative(n=passage.n, text=text) for text, passage in found), topic)


def path_of(title: str, heading: Sequence[str]) -> tuple[str, ...]:
    """The title and the headings of a section as words, each told once."""
    return tuple({part.casefold(): part for part in map(unformatted, (title, *heading)) if part}.values())


def asked_back(conversation: Conversation) -> QuestionBack | None:
    """The question back that the newest message is, in any language; None of another message.

    The next message answers it, and nothing is asked again.
    """
    newest = conversation.messages[-1:]
    return parse(newest[0].text) if newest and newest[0].role == "assistant" else None


def parse(text: str) -> QuestionBack | None:
    """Read the text of a question back; None of any other text."""
    asks, _, lines = text.partition("\n\n")
    if (match := _known().fullmatch(asks.strip())) is None:
        return None
    items = filter(None, (_ITEM.fullmatch(line.strip()) for line in lines.splitlines()))
    offered = tuple(Alternative(n=n, text=item[1]) for n, item in enumerate(items, 1))
    return QuestionBack(offered, next((topic for topic in match.groups() if topic), ""))


def unformatted(text: str) -> str:
    """A heading as words on one line: nothing in it formats, links, cites or closes anything."""
    return " ".join(sanitize_line(_MARKUP.sub(" ", text)).split())


def _holds(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return len(path) < len(other) and other[: len(path)] == path


def _shown(path: Sequence[str]) -> str:
    """The title, the heading and the one above it; where that is long, without the last, and each part shortened."""
    text = SEPARATOR.join(dict.fromkeys((*path[:1], *path[-2:])))
    if len(text) <= _LONGEST_ALTERNATIVE:
        return text
    title, *heading = dict.fromkeys((path[0], path[-1]))
    title = _short(title, _LONGEST_ALTERNATIVE // 2 if heading else _LONGEST_ALTERNATIVE)
    left = _LONGEST_ALTERNATIVE - len(title) - len(SEPARATOR)
    return SEPARATOR.join((title, *(_short(part, left) for part in heading)))


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _spoken_of(terms: Sequence[str], evidence: Sequence[Evidence]) -> str:
    """The first of the terms whose words stand in every passage, or above it."""
    held = [frozenset(stems(" ".join((one.title, *one.heading, one.text)))) for one in evidence]
    named = (term for term in map(unformatted, terms) if 0 < len(term) <= _LONGEST_TOPIC)
    return next((term for term in named if (words := stems(term)) and all(one.issuperset(words) for one in held)), "")


@cache
def _known() -> regex.Pattern[str]:
    """Matches the first line of a question back in every language; a group holds its topic."""
    about = (text.split("%(topic)s") for text in everywhere(_ASKS_ABOUT))
    patterns = (*map(regex.escape, everywhere(_ASKS)), *("(.{1,80}?)".join(map(regex.escape, part)) for part in about))
    return regex.compile("|".join(patterns))
