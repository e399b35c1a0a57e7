"""Ask back: the question that names what may be meant.

`server.turn.decision` says when; nothing is asked twice in a row. A question back is known by its text, so the history
that a client keeps is enough to understand the reply.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

from rewriter.protocol import Conversation
from server.turn.events import Alternative, Evidence
from text.sanitize import sanitize_line
from text.translation import everywhere, gettext, message

READ = 5
"""Passages whose sections are offered."""
_MOST_ALTERNATIVES = 4
_LONGEST_ALTERNATIVE = 90
_MARKUP = regex.compile(r"[`*\[\]<>|\\#~{}]|\w+://|(?<!\w)_+|_+(?!\w)|&(?=#?\w+;)|^[\s+=-]+|(?<=^\d{1,9})[.)]")


def alternatives(evidence: Sequence[Evidence]) -> list[Alternative]:
    """Return possible meanings: the sections of the first passages, each once, shortened and without any markup.

    Told by title and heading path. Fewer than two are none, for there is nothing to choose from.
    """
    by_text: dict[str, Alternative] = {}
    for passage in evidence[:READ]:
        path = [unformatted(part) for part in (passage.title or passage.document_id, *passage.heading)]
        parts = [part for n, part in enumerate(path) if part and part not in path[:n]]
        text = " › ".join(dict.fromkeys((*parts[:1], *parts[-2:])))
        if len(text) > _LONGEST_ALTERNATIVE:
            text = text[: _LONGEST_ALTERNATIVE - 1].rstrip() + "…"
        if text:
            by_text.setdefault(text.casefold(), Alternative(n=passage.n, text=text))
    first = list(by_text.values())[:_MOST_ALTERNATIVES]
    return first if len(first) > 1 else []


_ASKS = message("I cannot tell yet what you need. Which of these is it about, or what exactly happens?")


def asked_back(conversation: Conversation) -> bool:
    """Whether the newest message is such a question: what is said next answers it, and nothing is asked again."""
    return bool(conversation) and conversation.messages[-1].text.startswith(everywhere(_ASKS))


def question_back(offered: Sequence[Alternative]) -> str:
    """The question that asks which of them is meant."""
    lines = "\n".join(f"- {alternative.text}" for alternative in offered)
    return f"{gettext(_ASKS)}\n\n{lines}"


def unformatted(text: str) -> str:
    """A heading as words on one line: nothing in it formats, links, cites or closes anything."""
    return " ".join(sanitize_line(_MARKUP.sub(" ", text)).split())
