"""Messages of the server itself, and how they stay out of the history.

Refusals, introductions to quotes and replies to "thanks!" are for the reader. In the history they would mislead a
rewriter, a search or a model: "I found no sure answer to this" holds words that look like a topic. A question back
stays until it is replied to; both are one question from then on. Messages use the language of the request and are
recognised in all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import regex

from rewriter.protocol import Conversation, Message
from server.settings import IndexSettings
from server.turn.ask_back import folded
from text.languages import AUTO, ENGLISH, NAMES, language_of
from text.translation import everywhere, gettext, message, ngettext

log = logging.getLogger(__name__)

MULTILINGUAL = "multilingual-e5-small"
"""The registered encoder that is proposed for other languages than English."""

INTRODUCTION = message("From the documents, word for word:")
DOUBTFUL = message("I am not sure that these sentences answer it; they come nearest:")
UNSUPPORTED = message("Nothing in this answer could be matched with the documents: check it against the sources.")
NEAREST_INSTEAD = message("What comes nearest in the documents:")
"""Announces the sentences that are quoted below an answer nothing supports."""
NOT_BORNE_OUT = message("The documents do not bear that out. They say:")
"""Stands between a model's text and the quotes in its place where the text cannot be taken back."""
NOTHING_FOUND = message("The search found nothing for this question. Try other words, or another collection.")
A_PERSON = message("A person can go on from here; nothing was searched.")
"""Replies to whoever asks for a person; the way to one stands with it."""
WELCOME = message("You are welcome.")
GREETING = message("Hello. What would you like to know about these documents?")

_REFUSES = message("I found no sure answer to this in the documents.")
_UNSPOKEN = message("The documents do not seem to speak of this.")
_NEAREST, _NONE = message("; this comes nearest:"), message("; I found nothing near enough to quote.")
_OWN = (INTRODUCTION, DOUBTFUL, NEAREST_INSTEAD, NOT_BORNE_OUT, A_PERSON, WELCOME, GREETING)

_WORD = regex.compile(r"[\p{L}\p{N}]+(?:['’]\p{L}+)*")
_LONGEST = 120
_MOST_WORDS = 14


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_THANKS = _words(
    """
    thanks thank thx thanx thnx ty tysm cheers danke dankeschön merci gracias grazie obrigado obrigada tack takk
    kiitos dzięki спасибо dank ありがとう ありがとうございます ありがとうございました 感謝します 谢谢 谢谢您 多谢
    """
)
_HELLO = _words(
    "hi hello hey hallo hola bonjour ciao servus moin greetings こんにちは こんばんは おはようございます 你好 您好"
)
_BYE = _words("bye goodbye cya tschüss さようなら 再见")
_PRAISE = _words("great perfect awesome excellent super understood brilliant wonderful fantastic")
_BESIDE = _words(
    """
    a aah aaah again ah ahh all alright amazing and anyway appreciate appreciated are back beaucoup bed bien bis
    buddy calms clear cool day deep dive down everyone evening explained explanation fine for friend going good got
    gotcha guess guys haha have help helped helpful helping helps herzlichen i i'll information is it it's k lot
    lovely man many mate me meeting mil mille molte morning much muchas my myself neat need needed nice night now
    nvm oh ok okay okey perfectly quick really right schön sehr sleep so solved stuff sweet team that that's the
    then there this to u ur useful very vielen was weekend well will worked working works wow yay yeah yep yes you
    you've your
    """
)
"""Words that ask for nothing beside those of courtesy."""


def smalltalk_reply(text: str) -> str:
    """The reply to a message that only thanks, greets or praises; empty for any other, which may be a question.

    Told by its words, most of them English. Of 11,357 messages of written and recorded dialogs none that asked for
    something was taken for a courtesy, and of 49 courtesies in the written ones 40 were seen.
    """
    if len(text) > _LONGEST or "?" in text or "？" in text:
        return ""
    said_words = [word.replace("’", "'") for word in _WORD.findall(text.casefold())]
    words = frozenset(said_words)
    if not said_words or len(said_words) > _MOST_WORDS:
        return ""
    thanks = _THANKS | _BYE | _PRAISE
    if not words <= thanks | _HELLO | _BESIDE:
        return ""
    return gettext(WELCOME) if words & thanks else gettext(GREETING) if words & _HELLO else ""


def no_answer(
    searched: str, titles: Iterable[str], read: int, *, nearest: bool = False, far: bool = False, about: str = ""
) -> str:
    """An honest refusal: what was searched for, and in how many passages of which documents it is not said.

    With `nearest` it announces the sentences that come nearest, which are to follow; `far` says that none is near.
    `about` is said between.
    """
    names = list(dict.fromkeys(" ".join(title.split()) for title in titles))
    listed = ", ".join(names[:3])
    did = gettext(
        "I searched for “%(words)s” and read %(passages)s, from %(documents)s",
        words=" ".join(searched.split()),
        passages=ngettext("%(count)s passage", "%(count)s passages", read, count=read),
        documents=gettext("%(names)s and others", names=listed) if len(names) > 3 else listed,
    )
    message = " ".join(filter(None, (gettext(_UNSPOKEN if far else _REFUSES), about, did)))
    return message + gettext(_NEAREST if nearest else _NONE)


def history_for_model(messages: Iterable[Message]) -> Conversation:
    """Return the messages as the history that later turns read.

    Answers come without the server's own words and the marks of quotes, and courtesies are left out.
    """
    whole = folded(messages)
    asks_for_person = {
        n - 1 for n, reply in enumerate(whole) if reply.role == "assistant" and _offers_person(reply.text)
    }
    cleaned = (
        message if message.role == "user" else Message("assistant", _without(message.text))
        for n, message in enumerate(whole)
        if n not in asks_for_person
    )
    nonempty = [message for message in cleaned if message.text.strip()]
    following = [*(message.role for message in nonempty[1:]), "user"]
    return Conversation(
        tuple(
            message
            for message, then in zip(nonempty, following, strict=False)
            if not (message.role == then == "user" and smalltalk_reply(message.text))
        )
    )


def without_addition(conversation: Conversation, addition: str) -> Conversation:
    """Return the history without what the house adds to refusals: it is no answer, and not searched."""
    if not addition.strip():
        return conversation
    cleaned = (
        Message(message.role, message.text.removesuffix(addition).rstrip()) if message.role == "assistant" else message
        for message in conversation.messages
    )
    return Conversation(tuple(message for message in cleaned if message.text.strip()))


_QUOTE_MARKS = regex.compile(
    r"^ {0,3}(?:> ?)++(?:(?:\[\d{1,3}\] ?)++$)?|(?<![] ])(?: ?\[\d{1,3}\])++ *+$", regex.MULTILINE
)
"""The marks of quotes in an answer, and citations at the ends of lines."""


def _without(text: str) -> str:
    paragraphs = [part for part in text.split("\n\n") if not _is_own(part.strip())]
    return _QUOTE_MARKS.sub("", "\n\n".join(paragraphs)).strip()


def _offers_person(text: str) -> bool:
    return text.strip() in everywhere(A_PERSON)


def _is_own(paragraph: str) -> bool:
    refusals = everywhere(_REFUSES) + everywhere(_UNSPOKEN)
    return (
        any(paragraph in everywhere(text) for text in _OWN)
        or paragraph.startswith(everywhere(NOTHING_FOUND))
        or (paragraph.startswith(refusals) and paragraph.endswith(everywhere(_NEAREST) + everywhere(_NONE)))
    )


_SPOKEN = (
    message("Arabic"),
    message("Chinese"),
    message("English"),
    message("French"),
    message("German"),
    message("Japanese"),
    message("Spanish"),
)
"""Names of languages that are translated; others are said in English."""


def understood(index: IndexSettings) -> tuple[str, ...]:
    """Codes of the languages that a search understands; empty where that is not known."""
    from server.registry import registered_models

    encoder = registered_models().get(Path(index.encoder).name)
    if index.languages or index.language == AUTO or encoder is None or encoder.multilingual:
        return index.languages
    return tuple(dict.fromkeys((ENGLISH, index.language)))


def unsupported_language_notice(question: str, index: IndexSettings) -> str:
    """Says of a question in another language which ones the search understands; empty of any other. Blocks."""
    languages = understood(index)
    if not languages:
        return ""
    language = language_of(question)
    if not language or language in languages:
        return ""
    _log_unread(language)
    names = [gettext(NAMES.get(code, code)) for code in languages]
    listed = names[0]
    if len(names) > 1:
        listed = gettext("%(names)s and %(last)s", names=", ".join(names[:-1]), last=names[-1])
    return gettext(
        "This question seems to be in %(language)s; the search understands %(known)s.",
        language=gettext(NAMES[language]),
        known=listed,
    )


@cache
def _log_unread(language: str) -> None:
    """Tell the operator once for each language; the reader of an answer can change nothing about it."""
    log.warning(
        "questions in %s are asked, which the search does not understand: index.encoder = %r and index.language = %r, "
        "and indexing again, change that; see docs/languages.md",
        NAMES[language],
        MULTILINGUAL,
        AUTO,
    )
