"""Checks of a rewritten quote: each is done by code, and each refusal gives its reason in one sentence.

The words of the quote stay. Free text by a model is aligned with the quote word for word; any difference outside
brackets refuses it. Only discourse markers and references to figures and tables may go, and a pronoun or a short phrase
that points may be replaced by a bracket. Text in brackets must be supported by the document: words, numbers and
negations. Comparing words can neither reason nor translate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

import regex

from plugins.evidence.source import Edit, QuoteSpan, apply, kept, numbered_texts, original, untouchable
from server.turn.support import SUPPORTED, SupportScorer
from text.sanitize import is_showable
from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, negations, numbers, stems, words

LONGEST = 40
"""Words of one addition."""

MARKER = regex.compile(
    r"(?:however|moreover|furthermore|in addition|additionally|thus|therefore|hence|consequently|as a result"
    r"|accordingly|for (?:example|instance)|in contrast|by contrast|on the (?:other|one) hand|besides|similarly"
    r"|likewise|nevertheless|nonetheless|meanwhile|in particular|specifically|in fact|indeed|finally|lastly"
    r"|to (?:this|that) end|as (?:mentioned|described|noted|shown|stated|discussed|said)"
    r" (?:above|before|earlier|below|previously)|also|then|so|but|and|again|instead)\b\s*,?\s*",
    regex.IGNORECASE,
)
_NAMED = r"(?:Figures?|Figs?\.|Tables?|Tabs?\.|FIG\w*|TAB\w*)"
_FLOAT = rf"{_NAMED}\s*~?(?:\[?(?:FIG|TAB)REF\d+\]?|[A-Z]?\d[\w.\-]*|[IVX]+\b)"
_FLOATS = rf"{_FLOAT}(?:(?:,| and| or|–|-|,? ?&)\s*(?:{_FLOAT}|\d\w*))*"
FLOAT_REFERENCE = regex.compile(
    rf"\s*\((?:see |cf\. |as (?:shown|seen) in |e\.g\.,? )?(?:also )?{_FLOATS}\)"
    rf"|\s*,?\s*(?:as (?:shown|seen|illustrated|listed|given|depicted|reported) in|see) {_FLOAT},?",
)
_POINTS = regex.compile(
    r"(?:we|our|ours|us|i|my|me|it|its|he|his|she|her|they|their|them|this|that|these|those|such|here)"
    r"(?:\s+[\p{L}\p{N}\-]+){0,3}",
    regex.IGNORECASE,
)
_CITATION = regex.compile(
    r"\[\d[\d,\s–-]*\]|\bet al\b|\((?:[^()]*\b)?(?:19|20)\d\d[a-z]?\)|\b\p{Lu}\p{L}+,? \(?(?:19|20)\d\d[a-z]?\b"
)
_PLACEHOLDER = regex.compile(
    r"\b(?:BIB|FIG|TAB|SEC|EQ)?REF\d*\b|\bINLINEFORM\d*|\bno answer\b|\bcannot[_ ]answer", regex.I
)
_ADDRESS = regex.compile(
    r"https?:|ftp:|\bwww\.|\b[\w-]+\.(?:com|org|net|io|dev)\b|\S@\S+\.\w|javascript:|data:\w+/", regex.I
)
_MARKUP = regex.compile(r"<\s*/?\s*[A-Za-z!]|\]\(|```|\bon\w+\s*=|&#|\|\s*-{2,}|‹|\{\{|^\s*#{1,6}\s", regex.MULTILINE)
_ORDERS = regex.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|above|previous|prompt|rules)\b"
    r"|\b(?:system prompt|you are (?:an?|now)|as an ai)\b",
    regex.IGNORECASE,
)
_FORBIDDEN = (
    (_ADDRESS, "an address"),
    (_MARKUP, "markup or a script"),
    (_ORDERS, "an instruction"),
    (_PLACEHOLDER, "a placeholder"),
    (_CITATION, "a citation"),
)
_NAME = regex.compile(r"\p{Lu}[\p{L}\p{N}\-]*\p{L}[\p{L}\p{N}\-]*")
_TOKEN = regex.compile(r"[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]")
_QUOTES = str.maketrans("“”„‟‘’‚‛«»", '""""' + "''''" + '""')


class EvidenceTexts:
    """The texts that an addition must be supported by; cutting them takes milliseconds."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = [text for text in dict.fromkeys(texts) if text.strip()]
        self._scorer = SupportScorer(numbered_texts(self.texts))
        self._numbers = set[str]().union(*map(numbers, self.texts))

    def score(self, text: str) -> float:
        """How well the texts support it, from 0 to 1; a number or a negation that they lack costs most of it."""
        return self._scorer.score(text, range(1, len(self.texts) + 1))

    def turns(self, text: str) -> bool:
        """Whether what comes nearest to it denies what it says, or says what it denies."""
        return self._scorer.flips(text, range(1, len(self.texts) + 1))

    def lacks(self, text: str) -> str:
        """Return, as a sentence, the part of `text` that the texts lack; empty if they hold everything."""
        if strange := numbers(text) - self._numbers:
            return f"An addition brings a number that its evidence lacks ({', '.join(sorted(strange))})."
        if not stems(text) or self.score(text) >= SUPPORTED:
            return ""
        if negations(text) and not any(negations(text) for text in self.texts):
            return "An addition brings a negation that its evidence lacks."
        return "An addition is not supported by its evidence."


def addition_refused(added: str, quote: str, evidence: EvidenceTexts) -> str:
    """Return the reason to refuse `added` in brackets in `quote`; empty if it is allowed."""
    count = len(added.split())
    if not words(added):
        return "An addition is empty."
    if count > LONGEST:
        return f"An addition has {count} words; {LONGEST} are allowed."
    if not is_showable(added):
        return "An addition contains characters that are unsafe to show."
    for pattern, what in _FORBIDDEN:
        match = pattern.search(added)
        if match and not (pattern is _CITATION and match.group() in quote):
            return f"An addition contains {what} (“{match.group().strip()}”)."
    return evidence.lacks(added)


def has_instruction(text: str) -> bool:
    """Whether a text speaks to a model instead of its readers."""
    return bool(_ORDERS.search(text))


def sentence_refused(sentence: str, evidence: EvidenceTexts) -> str:
    """Why a sentence in a model's words may not stand for what the texts say; empty where it may."""
    if not is_showable(sentence):
        return "A sentence contains characters that are unsafe to show."
    joined = "\n".join(evidence.texts)
    for pattern, what in _FORBIDDEN:
        match = pattern.search(sentence)
        if match and not (pattern is _CITATION and match.group() in joined):
            return f"A sentence contains {what} (“{match.group().strip()}”)."
    if strange := numbers(sentence) - numbers(joined):
        return f"A sentence brings a number that the source lacks ({', '.join(sorted(strange))})."
    known_words = set(words(joined))
    names = _NAME.findall(MARKER.sub("", sentence, 1) if MARKER.match(sentence) else sentence)
    # The first word of a sentence is written large whatever it is; where the texts say the rest, it is no name.
    names = names[1:] if evidence.score(sentence) >= SUPPORTED and _NAME.match(sentence) else names
    if strange := {name for name in names if not set(words(name)) <= known_words | FUNCTION_WORDS}:
        return f"A sentence brings a name that the source lacks ({', '.join(sorted(strange))})."
    if evidence.turns(sentence):
        return "A sentence denies what the source says, or says what it denies."
    return ""


def spans_refused(quote: str, spans: Sequence[QuoteSpan], evidence: EvidenceTexts) -> str:
    """Return the reason to refuse these spans in place of `quote`; empty if they are allowed."""
    if original(spans) != quote:
        return "The words of the quote were changed outside brackets."
    at = 0
    places = untouchable(quote)
    for i, span in enumerate(spans):
        end = at + (0 if span.kind == "added" else len(span.text))
        inside = any(start < at < stop or start < end < stop for start, stop in places)
        if span.kind == "removed":
            replaced = spans[i + 1].text if i + 1 < len(spans) and spans[i + 1].kind == "added" else ""
            if any(start < end and at < stop for start, stop in places) and not FLOAT_REFERENCE.fullmatch(span.text):
                return "Code, a link or a citation was removed."
            if reason := _removal_refused(span.text, bool(replaced)):
                return reason
        elif span.kind == "added":
            if inside:
                return "An addition stands within code, a link or a citation."
            if reason := addition_refused(span.text, quote, evidence):
                return reason
        at = end
    if len(sentence_spans(kept(spans))) != len(sentence_spans(quote)) and kept(spans).strip():
        return "The number of sentences outside the brackets changed."
    return "" if kept(spans).strip() else "Nothing is left of the quote."


def _removal_refused(removed: str, replaced: bool) -> str:
    plain = removed.strip()
    if MARKER.fullmatch(plain) or FLOAT_REFERENCE.fullmatch(removed) or FLOAT_REFERENCE.fullmatch(plain):
        return ""
    if numbers(plain):
        return f"A number was removed (“{plain[:60]}”)."
    if negations(plain):
        return f"A negation was removed (“{plain[:60]}”)."
    if replaced and _POINTS.fullmatch(plain):
        return ""
    return f"Words were removed that are no discourse marker, figure or table (“{plain[:60]}”)."


def read_rewrite(quote: str, rewrite: str) -> tuple[list[QuoteSpan], str]:
    """A free rewrite as spans of the quote, and why it is refused (then without spans).

    Words outside brackets must be the quote's, in their order; case, blanks and punctuation are taken from the quote.
    """
    outside, added = _without_brackets(quote, rewrite)
    if any(not words(text) for _, text in added):
        return [], "An addition is empty."
    tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(quote)]
    written = [(match.group(), match.start()) for match in _TOKEN.finditer(outside)]
    matcher = SequenceMatcher(
        a=[_plain(token) for token, *_ in tokens], b=[_plain(token) for token, _ in written], autojunk=False
    )
    edits: list[Edit] = []
    places: dict[int, int] = {}
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            places.update((c + i, a + i) for i in range(b - a))
            continue
        new = [token for token, _ in written[c:d] if token[0].isalnum() or token[0] == "_"]
        if new:
            begin = written[c][1]
            finish = written[d - 1][1] + len(written[d - 1][0])
            return [], _difference(outside[begin:finish], quote, outside)
        gone = [token for token, *_ in tokens[a:b] if token[0].isalnum() or token[0] == "_"]
        if gone:
            end = tokens[b][1] if b < len(tokens) else len(quote)
            edits.append(Edit(tokens[a][1], end))
        places.update((i, max(a - 1, 0)) for i in range(c, d))
    for at, text in added:
        before = [i for i, (_, start) in enumerate(written) if start < at]
        place = tokens[places[before[-1]]][2] if before and before[-1] in places else 0
        edits.append(Edit(place, place, text))
    return apply(quote, _merged(quote, edits)), ""


def _merged(quote: str, edits: list[Edit]) -> list[Edit]:
    """An addition beside a removal becomes its replacement; one that a removal swallows stands behind it."""
    removals = sorted((edit for edit in edits if edit.end > edit.start), key=lambda edit: edit.start)
    merged, rest = list[Edit](), [edit for edit in edits if edit.end == edit.start]
    for removal in removals:
        near = [e for e in rest if removal.start - 1 <= e.start <= removal.end]
        rest = [e for e in rest if e not in near]
        stop = removal.end
        if near:
            stop = removal.start + len(quote[removal.start : removal.end].rstrip())
        merged.append(Edit(removal.start, stop, "; ".join(e.added for e in near)))
    return merged + rest


def _without_brackets(quote: str, rewrite: str) -> tuple[str, list[tuple[int, str]]]:
    """The rewrite without its additions, and each addition with its place there. The quote's own brackets stay."""
    own = [match.group() for match in regex.finditer(r"\[[^\[\]]*\]", quote)]
    outside, added, at = "", list[tuple[int, str]](), 0
    for match in regex.finditer(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]", rewrite):
        outside += rewrite[at : match.start()]
        at = match.end()
        if match.group() in own:
            own.remove(match.group())
            outside += match.group()
        else:
            added.append((len(outside), " ".join(match.group()[1:-1].split())))
    return outside + rewrite[at:], added


def _plain(token: str) -> str:
    return token.casefold().translate(_QUOTES)


def _difference(new: str, quote: str, outside: str) -> str:
    """Return the kind of the words outside brackets that the quote does not have."""
    excerpt = f"(“{' '.join(new.split())[:60]}”)."
    if _MARKUP.search(outside) and not _MARKUP.search(quote):
        return f"The rewrite contains markup or a script {excerpt}"
    if _ADDRESS.search(outside) and not _ADDRESS.search(quote):
        return f"The rewrite contains an address {excerpt}"
    if _PLACEHOLDER.search(new):
        return f"The rewrite contains a placeholder {excerpt}"
    if any(match.group() not in quote for match in _CITATION.finditer(outside)):
        return f"The rewrite adds a citation outside brackets {excerpt}"
    if len(sentence_spans(outside)) > len(sentence_spans(quote)):
        return f"The rewrite adds a sentence outside brackets {excerpt}"
    if numbers(new) - numbers(quote):
        return f"The rewrite adds a number outside brackets {excerpt}"
    if negations(new):
        return f"The rewrite adds a negation outside brackets {excerpt}"
    return f"The rewrite adds words outside brackets {excerpt}"
