"""Noun phrases of tagged sentences, and the many ways in which a conversation can name one again.

A `Phrase` is what questions ask about: its own words, its head, its number and the kind of thing it is. Words are
turned to the asking person's view here too ("your license" becomes "my license").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from synth.rules.lexicon import CLOSED, is_plural, readings, singular, word_list
from synth.rules.tagging import Token

MAX_WORDS = 7
_MODIFIERS = frozenset({"JJ", "CD", "NN", "NNS", "NNP", "VBN", "VBG", "RB"})
_HEADS = frozenset({"NN", "NNS", "NNP"})
_OPENERS = frozenset({"DT", "PRP$"})
_POINTING = word_list(
    "this these those that each every any some no another all both either neither most many several few"
)
# Heads that name nothing one could ask about, and modifiers that point elsewhere.
_EMPTY_HEADS = word_list(
    "time times way ways example examples thing things case cases number numbers lot part parts kind kinds type "
    "types one ones bit note notes step steps section sections page pages reason reasons fact result results item "
    "items following point points area areas place places day days week weeks month months year years hour hours "
    "minute minutes second seconds other others more less first last half most same use addition general "
    "particular figure table below above here there piece pieces set sets list lists line lines side end top bottom "
    "rest moment thousand million let sure please anything everything something nothing yes no people person anyone "
    "someone everyone name names chapter click link links rather instead able due etc e.g i.e vs example.com mail "
    "phone email fax monday tuesday wednesday thursday friday saturday sunday january february march april june "
    "july august september october november december turn download advantage amount tip tips warning info "
    "information details detail"
)
_POINTING_MODIFIERS = word_list(
    "same other such following above previous next more first last own certain various different several second "
    "third many few additional further enough named called latter former another particular respective given "
    "corresponding good great only"
)

_CLASSES: dict[str, str] = {
    "form": "form application request letter certificate document report statement notice card license permit receipt "
    "pass ticket badge voucher passport record proof claim affidavit questionnaire invoice title order appeal "
    "agreement contract note bill id visa",
    "benefit": "benefit program plan loan grant insurance coverage service policy scholarship allowance pension "
    "payment "
    "aid credit compensation discount refund assistance support relief exemption waiver subscription "
    "membership account",
    "office": "agency department office bureau center centre school lender servicer company university college bank "
    "hospital provider employer organization institution committee court team administration clinic authority",
    "person": "veteran spouse student parent borrower employee user applicant customer driver owner dependent survivor "
    "member developer administrator resident citizen worker teacher doctor patient beneficiary buyer seller "
    "dealer author manager officer contributor maintainer reviewer operator recipient caregiver wife husband "
    "child widow partner minor adult attorney lawyer",
    "software": "function method class module command cmdlet library api server client collection database endpoint "
    "object pipeline component node model framework package tool script plugin extension interface query "
    "index instance cluster service container image operator decorator middleware router dependency embedding "
    "schema field column key token app application workflow job task agent document store retriever encoder "
    "tokenizer engine runtime workspace repository branch toolchain shell terminal browser provider dataset "
    "toolkit sdk cli resource deployment dashboard environment",
    "setting": "parameter option argument setting variable property attribute flag default value header limit "
    "threshold "
    "mode configuration config file switch type format version port path",
    "money": "fee cost payment amount rate price charge tax fine penalty deposit premium copay balance salary income",
    "period": "deadline period date term duration delay timeout interval limit schedule",
    "process": "registration renewal suspension repayment consolidation deferment forbearance enrollment appeal review "
    "authentication authorization validation installation deployment migration inspection test exam transfer",
}  # fmt: skip
_CLASS_OF = {word: name for name, members in _CLASSES.items() for word in reversed(members.split())}
_PROCESS_ENDINGS = ("tion", "sion", "ment", "ing", "ance", "ence", "al")

_TO_USER = {
    "you": "I", "your": "my", "yours": "mine", "yourself": "myself", "yourselves": "ourselves",
    "we": "you", "our": "your", "us": "you", "ours": "yours",
}  # fmt: skip
_MASS = word_list(
    "insurance coverage aid assistance support compensation relief metadata software tuition equipment income "
    "training education housing interest money access security privacy traffic storage memory fraud identity "
    "property mail medicare medicaid"
)
_FORM_NAMES = word_list("form part title chapter section publication schedule class version type")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase as a user would write it: `text` with its determiner ("my license", "Form W-7").

    `head` is the singular head noun in lower case, `kind` the class of thing ("form", "person", … or ""), `named`
    whether it is a name (no article makes sense), `core` the text without determiner.
    """

    text: str
    core: str
    head: str
    plural: bool
    kind: str
    named: bool

    @property
    def key(self) -> str:
        """What two mentions of the same thing share."""
        return self.core.lower()

    @property
    def long(self) -> bool:
        """Whether its head alone would be a shorter name for it."""
        return len(self.core.split()) > 1

    @property
    def person(self) -> bool:
        return self.kind == "person"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A phrase and the tokens `[start, end)` it came from."""

    phrase: Phrase
    start: int
    end: int


def user_words(tokens: Sequence[Token], *, opens: bool = False, object_first: bool = False) -> str:
    """Tokens as text in the asking person's words.

    With `opens` the first word loses a sentence's capital; with `object_first` they follow a verb, so that a "you"
    at their beginning is its object.
    """
    parts: list[str] = []
    for place, token in enumerate(tokens):
        word = _TO_USER.get(token.lower)
        if word == "I" and ((object_first and not place) or not _is_subject(tokens, place)):
            word = "me"
        if word is None:
            word = uncapitalised(token.text) if place == 0 and opens and not _name_begins(tokens) else token.text
        if place and tokens[place - 1].lower == "you" and _is_subject(tokens, place - 1):
            word = {"are": "am", "were": "was"}.get(token.lower, word)
        parts.append((" " if token.spaced and parts else "") + word)
    return "".join(parts)


def _name_begins(tokens: Sequence[Token]) -> bool:
    """Whether a capital at the beginning goes on in the next word ("Social Security")."""
    return len(tokens) > 1 and tokens[1].text[:1].isupper() and tokens[1].tag == "NNP" and tokens[0].lower not in CLOSED


def _is_subject(tokens: Sequence[Token], place: int) -> bool:
    """Whether the "you" at `place` is followed by its verb, and not itself a verb's or preposition's object."""
    if place and tokens[place - 1].tag in {"VB", "VBZ", "VBD", "VBG", "VBN", "IN", "TO"}:
        return False
    following = next((token for token in tokens[place + 1 :] if token.tag not in {"RB", "NOT"}), None)
    return following is not None and following.tag in {"MD", "BE", "HAVE", "DO", "VB", "VBZ", "VBD"}


def uncapitalised(word: str) -> str:
    """`word` without the capital of a sentence's beginning, where that is all the capital stands for."""
    if (word[:1].isupper() and word[1:].islower()) or word == "A":
        lower = word.lower()
        if readings(lower) or lower in CLOSED:
            return lower
    return word


def chunks(tokens: Sequence[Token], *, opens: bool = False) -> tuple[Chunk, ...]:
    """The noun phrases worth asking about, in order; "of" joins two ("a change of address").

    With `opens` the tokens begin a sentence, so that the first capital says nothing.
    """
    return _chunks(tuple(tokens), opens)


@lru_cache(maxsize=256)  # a clause is looked at once for each question it may answer
def _chunks(tokens: tuple[Token, ...], opens: bool) -> tuple[Chunk, ...]:
    found: list[Chunk] = []
    at = 0
    while at < len(tokens):
        end = _end(tokens, at)
        if end == at:
            at += 1
            continue
        if end < len(tokens) - 1 and tokens[end].lower == "of":
            more = _end(tokens, end + 1)
            if more > end + 1 and more - at <= MAX_WORDS:
                end = more
        phrase = phrase_of(tokens[at:end], opens=opens and at == 0)
        if phrase is not None:
            found.append(Chunk(phrase, at, end))
        at = end
    return tuple(found)


def _mass(lemma: str) -> bool:
    """Whether a singular noun can go without an article."""
    return kind_of(lemma) == "process" or lemma in _MASS


def _end(tokens: Sequence[Token], at: int) -> int:
    """Where the noun phrase that begins at `at` ends; `at` itself where none does."""
    end = at
    if end < len(tokens) and tokens[end].tag in _OPENERS and tokens[end].lower not in {"'s"}:
        end += 1
    last = at
    owned = False
    while end < len(tokens):
        tag = tokens[end].tag
        if tag in _HEADS:
            last = end + 1
        elif tokens[end].lower == "'s" and end > at and last == end:
            owned = True
        elif (
            tag not in _MODIFIERS
            or (tag == "RB" and last > at)
            or (tag in {"VBN", "VBG", "JJ", "CD"} and last > at and not (owned and tag == "JJ"))
        ):
            break
        end += 1
    return last


def phrase_of(tokens: Sequence[Token], *, opens: bool = False) -> Phrase | None:
    """The phrase of these tokens, or None where it names nothing to ask about."""
    words = list(tokens)
    if not words or len(words) > MAX_WORDS:
        return None
    determined = words[0].tag in _OPENERS
    if determined and (words[0].lower in _POINTING or words[0].lower in {"its", "their", "his", "her", "our"}):
        return None
    body = words[1:] if determined else words
    if not body or body[0].lower in _POINTING_MODIFIERS or body[0].tag in {"RB", "VBG", "CD"}:
        return None
    of = next((place for place, token in enumerate(body) if token.lower == "of"), len(body))
    head = body[of - 1] if of else body[-1]
    lemma = singular(head.lower.strip("`"))
    if head.tag not in _HEADS or head.lower in _EMPTY_HEADS or lemma in _EMPTY_HEADS:
        return None
    if any(token.lower in _POINTING_MODIFIERS or token.lower in _POINTING for token in body):
        return None
    if "`" in head.text and sum(letter.isalpha() for letter in head.text) < 2:
        return None
    if len(head.text) < 3 and head.text[0] != "`" and not head.text.isupper():
        return None
    numbered = (
        len(body) > 1 and body[0].text[0].isupper() and body[0].lower in _FORM_NAMES and body[1].tag in {"NNP", "CD"}
    )
    named = (numbered or all(token.tag in {"NNP", "CD"} for token in body)) and not determined
    if len(body) == 1 and head.tag == "NN" and not determined and not named and not _mass(lemma):
        return None
    core = user_words(body, opens=opens and not determined and not numbered)
    text = user_words(words, opens=opens and not numbered)
    if numbered:
        lemma = body[0].lower
    return Phrase(
        text,
        core,
        lemma,
        head.tag == "NNS" and not named,
        kind_of(body[0].lower if numbered else head.lower.strip("`")),
        named,
    )


@lru_cache(maxsize=60_000)
def kind_of(word: str) -> str:
    """The class of thing a lower-case noun names, "" where the word lists do not tell."""
    lemma = singular(word) if is_plural(word) else word
    if lemma in _CLASS_OF:
        return _CLASS_OF[lemma]
    if len(lemma) > 6 and lemma.endswith(_PROCESS_ENDINGS):
        return "process"
    return ""
