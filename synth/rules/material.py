"""What a document offers to a conversation: sentences, phrases, questions, actions, conditions, lists, headings.

Text is cleaned of markup and of everything hostile here, before any rule sees it. A document in another language
than English, or one without plain sentences, gives empty material.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import regex

from rewriter.harmless import harmless
from synth.rules.asking import Action, asked, purposes
from synth.rules.clauses import clause_of, listed
from synth.rules.headings import heading_questions, heading_topic
from synth.rules.lexicon import word_list
from synth.rules.phrases import Phrase, chunks
from synth.rules.questions import Part, Question, rendered
from synth.rules.tagging import tagged

MAX_CHARACTERS = 60_000
"""Longest part of a document that is read; the rest of a longer one is left out."""
MAX_LINE = 6_000
MAX_SENTENCES = 400

_FENCE = regex.compile(r"^(```|~~~).*?^\1[^\n]*$", regex.MULTILINE | regex.DOTALL)
_COMMENT = regex.compile(r"<!--.*?-->|\{/?\*.*?\*/?\}", regex.DOTALL)
_IMAGE = regex.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = regex.compile(r"\[([^\]\[]{1,200})\](?:\([^)]{0,500}\)|\[[^\]]{0,100}\])|\[([^\]\[]{3,200})\]")
_TAG = regex.compile(r"</?[A-Za-z][^<>]{0,300}>")
_FOOTNOTE = regex.compile(r"\s?\[\s?\d+\s?\]|\{\s?[#:.][^{}]{0,80}\}|[†‡]|\[\^[^\]]{1,20}\]")
_EMPHASIS = regex.compile(r"\*\*|__|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])|~~|(?<![\w])_(?=\w)|(?<=\w)_(?![\w])")
_HEADING = regex.compile(r"^\s{0,3}(#{1,6})\s+(.{1,200}?)\s*#*\s*$")
_UNDERLINE = regex.compile(r"^\s{0,3}(=+|-{3,})\s*$")
_BULLET = regex.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+")
_SKIP_LINE = regex.compile(
    r"^\s*(?:\||:::|///|import\s|export\s|@|\{|\}|<|>|---|\.\.|%|\$|//|#!)|^\s{4,}\S+\(|={3,}|\|\s"
)
_END = regex.compile(
    r"(?<=[.!?])(?<!\b(?:e\.g|i\.e|etc|vs|No|Dr|Mr|Mrs|St|U\.S|approx|Inc|Fig)\.)[\"”')\]]{0,2}\s+(?=[\"“(`]?[\p{Lu}`\d])"
)
_ODD = regex.compile(r"[{}<>|=\\^~@#\[\]*]|https?:|www\.|\s[-–—]{2,}\s|\p{C}|[^\x00-\x7F’“”–—éüöäñ×§°€£…]|\.\w{1,4}/")
_CONTRACTIONS: tuple[tuple[regex.Pattern[str], str], ...] = tuple(
    (regex.compile(pattern, regex.IGNORECASE), put)
    for pattern, put in (
        (r"\b(do|does|did|is|are|was|were|has|have|had|could|would|should|must|need)n['’ ]?t\b", r"\1 not"),
        (r"\bcan['’ ]t\b", "cannot"),
        (r"\bwon['’ ]t\b", "will not"),
        (r"\byou['’ ]re\b", "you are"),
        (r"\bI['’]m\b", "I am"),
        (r"\byou['’]ll\b", "you will"),
        (r"\byou['’]ve\b", "you have"),
        (r"\bwe['’](?:re|ll|ve)\b", "we are"),
        (r"\bthey['’]re\b", "they are"),
        (r"\b(it|that|there|what|here)['’]s\b", r"\1 is"),
    )
)
_LOST_APOSTROPHE = regex.compile(
    r"(?<=\p{L}{2}) (?=s \p{L})|(?<=\b(?:[Yy]ou|[Tt]hey|[Ww]e|I)) (?=(?:ll|re|ve)\b)"
    r"|(?<=\b(?:do|does|did|is|are|was|were|has|have|had|could|would|should|ca|wo)n) (?=t\b)|(?<=\bI) (?=m\b)"
)
_LOOSE_HYPHEN = regex.compile(
    r"(?<=[\p{L}\d]) - (?=[\p{Ll}\d])(?!(?:it|this|that|they|you|the|a|an|if|so|and|but|for|in|we|or|not|as|with)\b)"
)
_LETTERS = regex.compile(r"\p{L}+")
_SPACES = regex.compile(r"\s+")
_LOOSE_MARK = regex.compile(r"\s+([,.;:?!])")
_CODE = regex.compile(r"`[^`]{1,60}`")
_LABEL = regex.compile(r"^(?:Note|Important|Tip|Warning|Caution|Hint|NOTE|Remember|Example)s?: ")
_ENGLISH = word_list(
    "the of to and a in is for you your that or with be are on as can this if by not from it an at will"
)
MIN_ENGLISH = 0.12
"""Least share of common English words in a document that is read at all."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence as an assistant would say it, the phrases it names, its enumeration, and what it was asked for.

    `inverted` is its clause in the order of a question (empty where there is none); `action` what it tells to do.
    """

    text: str
    phrases: tuple[Phrase, ...]
    listed: tuple[Phrase, ...]
    inverted: tuple[Part, ...]
    action: Action | None
    negated: bool
    section: int


@dataclass(frozen=True, slots=True)
class Material:
    """Everything the rules found in one document.

    `by_phrase` leads from a phrase's key to the places of questions that name it, `said` to the places of sentences
    that do; `alike` groups phrases by class for putting one in another's place. `titles` are phrases of headings.
    """

    document_id: str
    sentences: tuple[Sentence, ...]
    questions: tuple[Question, ...]
    phrases: tuple[Phrase, ...]
    actions: tuple[Action, ...]
    conditions: tuple[str, ...]
    titles: tuple[Phrase, ...]
    by_phrase: Mapping[str, tuple[int, ...]]
    said: Mapping[str, tuple[int, ...]]
    alike: Mapping[str, tuple[Phrase, ...]]

    @property
    def usable(self) -> bool:
        """Whether a conversation can be made of it."""
        return len(self.sentences) >= 3 and len(self.phrases) >= 3


def material_of(document_id: str, title: str, text: str) -> Material:
    """The material of one document; `text` may be Markdown or plain."""
    sentences: list[Sentence] = []
    questions: list[Question] = []
    actions: dict[str, Action] = {}
    conditions: dict[str, None] = {}
    titles: dict[str, Phrase] = {}
    path: list[str] = []
    base = _title(title)
    section = 0
    for level, line in _lines(text):
        if level:
            section += 1
            heading = _expanded(_plain(line))
            path = [*path[: level - 1], heading]
            while len(path) < level:
                path.insert(0, base)
            above = next((one for one in (*reversed(path[:-1]), base) if one and one != heading), "")
            for made in heading_questions(heading, above, len(sentences)):
                questions.append(made)
                titles.update((phrase.key, phrase) for phrase in made.phrases)
            topic = heading_topic(heading)
            if topic is not None:
                titles.setdefault(topic.key, topic)
            continue
        for sentence in _sentences(line):
            if len(sentences) >= MAX_SENTENCES:
                break
            analysed = _analysed(sentence, len(sentences), section)
            if analysed is None:
                continue
            found, made_of_it, condition, more = analysed
            sentences.append(found)
            questions.extend(made_of_it)
            actions.update((action.text, action) for action in more)
            if condition:
                conditions.setdefault(condition)
    unlike = {rendered(one.parts).lower(): one for one in reversed(questions) if one.answer < len(sentences)}
    questions = list(reversed(unlike.values()))
    return _gathered(document_id, sentences, questions, actions, conditions, titles)


def _gathered(
    document_id: str,
    sentences: list[Sentence],
    questions: list[Question],
    actions: dict[str, Action],
    conditions: dict[str, None],
    titles: dict[str, Phrase],
) -> Material:
    phrases: dict[str, Phrase] = dict(titles)
    said: dict[str, list[int]] = {}
    for place, sentence in enumerate(sentences):
        for phrase in sentence.phrases:
            phrases.setdefault(phrase.key, phrase)
            said.setdefault(phrase.key, []).append(place)
    by_phrase: dict[str, list[int]] = {}
    for place, one in enumerate(questions):
        for key in one.keys:
            by_phrase.setdefault(key, []).append(place)
    alike: dict[str, list[Phrase]] = {}
    for phrase in phrases.values():
        for group in {phrase.kind, f"head:{phrase.head}"} - {""}:
            alike.setdefault(f"{group}:{phrase.plural}", []).append(phrase)
    return Material(
        document_id,
        tuple(sentences),
        tuple(questions),
        tuple(phrases.values()),
        tuple(actions.values()),
        tuple(conditions),
        tuple(titles.values()),
        {key: tuple(places) for key, places in by_phrase.items()},
        {key: tuple(dict.fromkeys(places)) for key, places in said.items()},
        {key: tuple(group) for key, group in alike.items() if len(group) > 1},
    )


def _analysed(
    text: str, place: int, section: int
) -> tuple[Sentence, tuple[Question, ...], str, tuple[Action, ...]] | None:
    """A sentence with its questions, condition and actions; None where it says nothing that can be talked about."""
    tokens = tagged(_expanded(text))
    if not 4 <= len(tokens) <= 48:
        return None
    found = tuple(dict.fromkeys(chunk.phrase for chunk in chunks(tokens, opens=True)))
    clause = clause_of(tokens)
    made = asked(clause, place) if clause is not None else None
    if made is None and not found:
        return None
    items = tuple(chunk.phrase for chunk in listed(tokens))
    more = (*((made.action,) if made is not None and made.action else ()), *purposes(tokens))
    sentence = Sentence(
        text,
        found,
        items if 2 <= len(items) <= 5 else (),
        made.inverted if made is not None else (),
        made.action if made is not None else None,
        made.negated if made is not None else False,
        section,
    )
    return sentence, made.questions if made is not None else (), made.condition if made is not None else "", more


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Headings with their level, and paragraphs with level 0."""
    text = text[:MAX_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n")
    text = "\n".join(line for line in harmless(text).split("\n") if len(line) <= MAX_LINE)
    text = _COMMENT.sub(" ", _FENCE.sub("\n", text))
    if not english(text):
        return
    paragraph: list[str] = []

    def flushed() -> Iterator[tuple[int, str]]:
        if paragraph:
            yield 0, " ".join(paragraph)
            paragraph.clear()

    for line in text.split("\n"):
        heading = _HEADING.match(line[:300])
        if heading:
            yield from flushed()
            yield len(heading.group(1)), heading.group(2)
        elif not line.strip() or _SKIP_LINE.search(line[:200]):
            yield from flushed()
        elif _UNDERLINE.match(line) and len(paragraph) == 1 and len(paragraph[0]) < 100:
            yield (1 if line.strip().startswith("=") else 2), paragraph.pop()
        else:
            if _BULLET.match(line):
                yield from flushed()
                line = _BULLET.sub("", line)
            paragraph.append(line.strip())
    yield from flushed()


def english(text: str) -> bool:
    """Whether enough of the words are the small words of English."""
    words = _LETTERS.findall(text[:6_000].lower())
    return len(words) > 8 and sum(word in _ENGLISH for word in words) / len(words) >= MIN_ENGLISH


def _plain(text: str) -> str:
    """Text without inline markup."""
    text = _IMAGE.sub(" ", text)
    text = _LOOSE_HYPHEN.sub("-", _LOST_APOSTROPHE.sub("'", text))
    text = _LINK.sub(lambda match: match.group(1) or match.group(2), _FOOTNOTE.sub("", text))
    return _SPACES.sub(" ", _EMPHASIS.sub("", _TAG.sub(" ", text))).strip()


def _sentences(paragraph: str) -> Iterator[str]:
    for part in _END.split(_plain(paragraph)):
        text = _LOOSE_MARK.sub(r"\1", _LABEL.sub("", part.strip()))
        if (
            20 <= len(text) <= 260
            and text[-1] in ".!"
            and (text[0].isupper() or text[0] == "`")
            and not _ODD.search(_code_free(text))
        ):
            yield text


def _code_free(text: str) -> str:
    return _CODE.sub("", text) if "`" in text else text


def _expanded(text: str) -> str:
    """Contractions written out, which the tagger need not know then."""
    if "'" not in text and "’" not in text:
        return text
    for pattern, put in _CONTRACTIONS:
        text = pattern.sub(put, text)
    return text


def _title(title: str) -> str:
    """A document's title as words: site names and file endings left out."""
    text = regex.split(r"\s[|·—–]\s|\s-\s|#\d", _plain(harmless(title)))[0]
    text = regex.sub(r"\.\w{2,5}$", "", text).replace("_", " ").strip()
    return text if 2 < len(text) < 80 else ""
