"""Messages of the server itself, how they stay out of the history, and questions back with their replies.

Refusals, introductions to quotes and replies to "thanks!" are for the reader. In the history they would mislead a
rewriter, a search or a model: "I found no sure answer to this" holds words that look like a topic. A question back
stays until it is replied to; both are one question from then on. Messages use the language of the request and are
recognised in all, so the history that a client keeps is enough.

`server.turn.decision` says when to ask back which section is meant; nothing is asked twice in a row, and no model is
needed. The question's first line names what the sections have in common, or the conversation's subject; below it they
are a numbered list. A reply is the text of an alternative, its place in the list, some of its words, "none of these",
or an answer in free words (`reply_words.toml`). It becomes the question that was asked back about, with what was chosen
or added in parentheses. A message that asks something anew is no reply: it is searched by itself.
"""

from __future__ import annotations

import logging
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import takewhile, zip_longest
from pathlib import Path

import regex

from index.documents import Hit, Passage
from rewriter.protocol import Conversation, Message
from server.settings import IndexSettings
from server.turn.events import Alternative, Evidence
from text.languages import AUTO, ENGLISH, NAMES, everywhere, gettext, language_of, message, ngettext
from text.sanitize import sanitize_line
from text.words import negations, stems

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

    Answers come without the server's own words and the marks of quotes. Courtesies are left out, and so are quotes that
    are told with a doubt and what a model wrote where the nearest sentences stand below it instead. The doubted quotes
    are `heard`: a wrong one would be found again, but it may be what the next question speaks of.
    """
    whole = folded(messages)
    sure, heard = (_read(whole, doubted=doubted) for doubted in (False, True))
    return Conversation(sure, heard if heard != sure else ())


def _read(messages: Sequence[Message], *, doubted: bool) -> tuple[Message, ...]:
    """Return the messages that say something: answers without the server's words, with what it doubts if `doubted`."""
    nonempty = list[Message]()
    for turn, reply in zip_longest(messages, messages[1:]):
        text = turn.text if turn.role == "user" else _without(turn.text, doubted=doubted)
        asks_for_person = reply and reply.role == "assistant" and reply.text.strip() in everywhere(A_PERSON)
        if text.strip() and not asks_for_person:
            nonempty.append(Message(turn.role, text))
    following = [*(turn.role for turn in nonempty[1:]), "user"]
    return tuple(
        message
        for message, then in zip(nonempty, following, strict=False)
        if not (message.role == then == "user" and smalltalk_reply(message.text))
    )


def without_addition(conversation: Conversation, addition: str) -> Conversation:
    """Return the history without what the house adds to refusals: it is no answer, and not searched."""
    if not addition.strip():
        return conversation

    def cleaned(messages: Sequence[Message]) -> tuple[Message, ...]:
        bare = (
            Message(message.role, message.text.removesuffix(addition).rstrip())
            if message.role == "assistant"
            else message
            for message in messages
        )
        return tuple(message for message in bare if message.text.strip())

    return Conversation(cleaned(conversation.messages), cleaned(conversation.heard))


_QUOTE_MARKS = regex.compile(
    r"^ {0,3}(?:> ?)++(?:(?:\[\d{1,3}\] ?)++$)?|(?<![] ])(?: ?\[\d{1,3}\])++ *+$", regex.MULTILINE
)
"""The marks of quotes in an answer, and citations at the ends of lines."""
_QUOTE = regex.compile(r"\s*>.*\[\d{1,3}\]\s*", regex.DOTALL)
_PART = regex.compile(r"\*\*[^\n]+\?\*\*")


def _without(text: str, *, doubted: bool) -> str:
    """Return an answer without the server's own words, the text that they take back, and the quotes that they doubt
    unless `doubted`."""
    paragraphs, doubts = list[str](), False
    for part in text.split("\n\n"):
        if _is_own(own := part.strip()):
            doubts = own in everywhere(DOUBTFUL) and not doubted
            takes_back = own in everywhere(NEAREST_INSTEAD) + everywhere(NOT_BORNE_OUT)
            while takes_back and paragraphs and not _PART.fullmatch(paragraphs[-1]):
                paragraphs.pop()
        elif not (doubts and _QUOTE.fullmatch(part)):
            paragraphs.append(part)
    return _QUOTE_MARKS.sub("", "\n\n".join(paragraphs)).strip()


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


def languages_read(index: IndexSettings) -> tuple[str, ...]:
    """Codes of the languages that a search understands; empty where that is not known."""
    from server.registry import registered_models

    encoder = registered_models().get(Path(index.encoder).name)
    if index.languages or index.language == AUTO or encoder is None or encoder.multilingual:
        return index.languages
    return tuple(dict.fromkeys((ENGLISH, index.language)))


def unsupported_language_notice(question: str, index: IndexSettings) -> str:
    """Says of a question in another language which ones the search understands; empty of any other. Blocks."""
    languages = languages_read(index)
    if not languages or (language := language_of(question)) in ("", *languages):
        return ""
    _log_unread(language)
    *names, last = (gettext(NAMES.get(code, code)) for code in languages)
    listed = gettext("%(names)s and %(last)s", names=", ".join(names), last=last) if names else last
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
    """Return the first term that has its words in every passage, or above it."""
    held = [frozenset(stems(" ".join((one.title, *one.heading, one.text)))) for one in evidence]
    named = (term for term in map(unformatted, terms) if 0 < len(term) <= _LONGEST_TOPIC)
    return next((term for term in named if (words := stems(term)) and all(one.issuperset(words) for one in held)), "")


@cache
def _known() -> regex.Pattern[str]:
    """Matches the first line of a question back in every language; a group holds its topic."""
    about = (text.split("%(topic)s") for text in everywhere(_ASKS_ABOUT))
    patterns = (*map(regex.escape, everywhere(_ASKS)), *("(.{1,80}?)".join(map(regex.escape, part)) for part in about))
    return regex.compile("|".join(patterns))


PREFERRED = 4
"""Passages of the chosen sections that are put first at most."""
NAMED = 0.5
"""Share of a reply's words of content that must name an alternative, where it has others beside."""

_LIST_NUMBER = regex.compile(r"[\s(#]*\p{Nd}{1,2}[.):]\s*")
_HEAD_ENDS = regex.compile(r"[,،，、;]\s*|\)\s+|\s+[-–—]\s+")
"""Stands between a place and further words."""
_CLAUSE = r"(?:^|[.!;,:،，、。–—]\s*|\b(?:and|so|but|also|ok|okay|well|then|und|et|y)\s+)"
_ENDS = r"(?=\W*$|\s*[,;:.!،，、。–—-])"


@dataclass(frozen=True, slots=True)
class BackReply:
    """A reply to a question back, resolved.

    `before` is the history before `question`, which was asked back about. `chosen` are the alternatives that are meant,
    `declined` those that are not; `said` are further words.
    """

    typed: str
    question: str
    before: Conversation
    topic: str
    chosen: tuple[str, ...] = ()
    declined: tuple[str, ...] = ()
    said: str = ""

    @property
    def about(self) -> str:
        """The words that are added to the question: topic and choice, and what else was said."""
        named = SEPARATOR.join(filter(None, (self.topic, ", ".join(self.chosen)))) if self.chosen else ""
        return ": ".join(filter(None, (named, self.said)))

    @property
    def text(self) -> str:
        """The question in full, for people and models: `backup fails (Postgres › Dump and restore)`."""
        if not self.about:
            return self.question
        bare = self.question.rstrip(" ?？؟.!。")
        asks = next((sign for sign in self.question[len(bare) :] if sign in "?？؟"), "")
        return f"{bare} ({self.about}){asks}"

    @property
    def asked(self) -> tuple[str, Conversation]:
        """The words to search for first, and the history that they lean on.

        A choice makes the question whole. Other words find more by themselves, as a follow-up of the question.
        """
        if self.chosen or not self.said:
            return self.text, self.before
        return self.said, Conversation((*self.before.messages, Message("user", self.question)))

    def preferred(self, hits: Sequence[Hit]) -> list[Hit]:
        """The hits, those of the chosen sections first, `PREFERRED` at most, or those of the declined ones last."""
        names, inside = self.chosen or self.declined, list[Hit]()
        # A topic that is no title, but what the conversation speaks of, is in no path.
        for topic in dict.fromkeys((self.topic, "")):
            inside = inside or [hit for hit in hits if any(_stands_in(topic, name, hit.passage) for name in names)]
        if self.chosen:
            first = inside[:PREFERRED]
            return [*first, *(hit for hit in hits if hit not in first)]
        return [*(hit for hit in hits if hit not in inside), *inside]


def understood(conversation: Conversation, message: str) -> BackReply | None:
    """Return the reply to the question back that ends `conversation`; None where none does, or `message` asks anew.

    Words that fit all alternatives, or none, choose nothing: they are added to the question.
    """
    asked = asked_back(conversation)
    if asked is None or len(conversation.messages) < 2 or conversation.messages[-2].role != "user":
        return None
    before, question = Conversation(conversation.messages[:-2], conversation.heard[:-2]), conversation.messages[-2].text
    said, words = " ".join(message.split()), _reply_words()
    texts = tuple(alternative.text for alternative in asked.alternatives)
    chosen, rest = _chosen(texts, said)
    if chosen:
        return BackReply(message, question, before, asked.topic, chosen, said=rest)
    if (match := words.none.match(said)) is not None:
        rest = words.instead.sub("", said[match.end() :], count=1)
        if not words.anew.search(rest):
            return BackReply(message, question, before, asked.topic, declined=texts, said=rest)
    if words.anew.search(said):
        return None
    return BackReply(message, question, before, asked.topic, said=said)


def passed_over(conversation: Conversation) -> Conversation:
    """The conversation without a question back that ends it: its words are those of the sections, not of anybody."""
    return (
        Conversation(conversation.messages[:-1], conversation.heard[:-1]) if asked_back(conversation) else conversation
    )


def folded(messages: Iterable[Message]) -> list[Message]:
    """Return a history in which each question back and the reply to it are the one question that they resolve to.

    A question back that was passed over is left out; one that ends the history stays.
    """
    past = Conversation()
    for turn in messages:
        if turn.role == "user":
            reply = understood(past, turn.text)
            past, turn = (reply.before, Message("user", reply.text)) if reply else (passed_over(past), turn)
        past = Conversation((*past.messages, turn))
    return list(past.messages)


def _chosen(offered: Sequence[str], reply: str) -> tuple[tuple[str, ...], str]:
    """The alternatives that a message chooses, and the words that it adds to them."""
    plain = {_plain(reply), _plain(_LIST_NUMBER.sub("", reply, count=1))}
    if exact := tuple(text for text in offered if _plain(text) in plain):
        return exact, ""
    if places := _places(reply, len(offered)):
        return tuple(offered[place] for place in places), ""
    if (end := _HEAD_ENDS.search(reply)) is not None:
        head, rest = reply[: end.start()], reply[end.end() :]
        # "First, how do I …" chooses nothing: a single word must be a number.
        if (len(head.split()) > 1 or head.strip("(#").isdecimal()) and (places := _places(head, len(offered))):
            return tuple(offered[place] for place in places), rest
    return ((), "") if _reply_words().anew.search(reply.rstrip(" ?？؟")) else _named(offered, reply)


def _places(text: str, count: int) -> list[int]:
    """The places in a list of `count`, from 0, that a message of nothing else names; none where one is not in it."""
    vocabulary = _reply_words()
    words = vocabulary.word.findall(unicodedata.normalize("NFKC", text).casefold())
    if words == ["one"]:
        return [0]
    places = set[int]()
    for word in words:
        if word.isdecimal():
            places.add(int(word) - 1)
        elif word in vocabulary.places:
            places.add(vocabulary.places[word] % count)
        elif word in vocabulary.all:
            places.update(range(count))
        elif word not in vocabulary.beside:
            return []
    return sorted(places) if places <= set(range(count)) else []


def _named(offered: Sequence[str], reply: str) -> tuple[tuple[str, ...], str]:
    """The alternatives that have all words of content of a message, or the one that has half of them alone."""
    words = set(stems(reply)) - {*stems(" ".join(_reply_words().beside))}
    if not words or negations(reply):
        return (), ""
    held = [words & set(stems(text)) for text in offered]
    whole = tuple(text for text, common in zip(offered, held, strict=True) if common == words)
    if 0 < len(whole) < len(offered):
        return whole, ""
    only = [n for n, common in enumerate(held) if any(sum(word in other for other in held) == 1 for word in common)]
    if len(only) == 1 and len(held[only[0]]) >= NAMED * len(words) and "?" not in reply:
        return (offered[only[0]],), reply
    return (), ""


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().strip(" .?!\"'“”").split())


def _stands_in(topic: str, name: str, passage: Passage) -> bool:
    """Return whether a passage is of the section `name`: its path has the parts of that name, in their order."""
    path = path_of(passage.title or passage.document_id, passage.heading)
    places = iter([part.casefold() for whole in path for part in whole.split(SEPARATOR)])
    wanted = (topic.casefold(), *name.casefold().split(SEPARATOR))
    return all(any(_same(part, place) for place in places) for part in wanted if part)


def _same(part: str, place: str) -> bool:
    return place.startswith(part[:-1]) if part.endswith("…") else place == part


@dataclass(frozen=True, slots=True)
class _ReplyWords:
    """The words of `reply_words.toml`, of all languages together."""

    word: regex.Pattern[str]
    places: Mapping[str, int]
    """Places from 0; -1 is the last."""
    all: frozenset[str]
    beside: frozenset[str]
    none: regex.Pattern[str]
    instead: regex.Pattern[str]
    anew: regex.Pattern[str]


@cache
def _reply_words() -> _ReplyWords:
    tables = tomllib.loads(files("server.turn").joinpath("reply_words.toml").read_text("utf-8")).values()

    def every(key: str) -> list[str]:
        return [
            word for table in tables for word in (table[key].split() if isinstance(table[key], str) else table[key])
        ]

    def either(key: str) -> str:
        return "|".join(every(key))

    places = {word: n for table in tables for n, words in enumerate(table["places"]) for word in words.split()}
    places |= dict.fromkeys(every("last"), -1)
    unspaced = {*places, *every("all"), *every("beside")}
    unspaced = {word for word in unspaced if regex.fullmatch(r"[\p{Han}\p{Hiragana}\p{Katakana}]+", word)}
    return _ReplyWords(
        word=regex.compile(
            "|".join(
                (*sorted(unspaced, key=len, reverse=True), r"\p{Nd}+(?!\p{Latin})|[\p{L}\p{N}\p{M}]+(?:['’]\p{L}+)*")
            )
        ),
        places=places,
        all=frozenset(every("all")),
        beside=frozenset(every("beside")),
        none=regex.compile(
            rf"\W*(?:(?:{either('no')}){_ENDS}|(?:(?:{either('no')})\W+)?(?:{either('none')}))", regex.IGNORECASE
        ),
        instead=regex.compile(rf"[\W]*(?:(?:{either('instead')})(?!\w)\s*)*", regex.IGNORECASE),
        anew=regex.compile(
            rf"[?？؟¿]|{_CLAUSE}(?:{either('asks')})|^\W*(?:{either('leaves')})(?!\w)", regex.IGNORECASE
        ),
    )
