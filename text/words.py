"""The words of a text as they are compared: stems, numbers, negations, quoted terms.

Made for judging whether two short texts say the same things, in any language: Unicode words, with
pairs of characters standing in for words where a script writes none. It is not the index's tokenizer
and never has to agree with it.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import regex
import Stemmer

_WORD = regex.compile(r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+|\p{Thai}+|[\p{L}\p{M}\p{N}_]+(?:['’][\p{L}]+)*")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]")
_NUMBER = regex.compile(r"(?<![\p{L}_\p{N}])\p{Nd}+(?:[.,:]\p{Nd}+)*(?:%|\b)?")
_UNITS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBER_WORDS = {word: str(n) for n, word in (*enumerate(_UNITS, 2), *zip(range(20, 100, 10), _TENS, strict=True))}
_NUMBER_WORD = regex.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b(?!-)", regex.IGNORECASE)
_QUOTED = regex.compile(r"`([^`\n]{1,80})`|\"([^\"\n]{1,80})\"|“([^”\n]{1,80})”|«([^»\n]{1,80})»|「([^」\n]{1,80})」")
_NEGATION = regex.compile(
    r"\b(?:not|no|never|none|neither|nor|without|cannot|unable|nothing|nobody|nowhere"
    r"|nicht|kein\w*|ohne|nie|niemals|ne|pas|jamais|sans|sin|nunca|non|senza|mai|niet|geen|zonder|não|nao|sem"
    r"|nie|bez|не|нет|ни|без|inte|ingen|utan|ikke|ei)\b|n['’]t\b"
    # As typed in haste, or left of it by a converter: "dont", "can t".
    r"|\b(?:ca|do|does|did|is|are|was|were|wo|would|should|could|has|have|had|must|need)n ?t\b"
    r"|[不没沒無无未]|ない|ません|없|않",
    regex.IGNORECASE,
)

_FUNCTION_WORDS = """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing done down during each either else ever every few for from further get gets give
    had has have having he her here hers him his how i if in into is it its itself just know let like may me might
    more most much must my need of off on once only or other our out over own please same shall she should so some
    such tell than that the their them then there these they thing things this those through to too under until up
    us use very want was we were what when where which while who whom whose why will with would yes you your
    not no never none neither nor without cannot n't nothing s t re ve ll d m don doesn didn isn aren wasn won
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that carry little content; other languages are served by idf weights where it matters."""


@lru_cache(maxsize=1)
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")


def words(text: str) -> list[str]:
    """Case-folded words in reading order; runs of unspaced scripts become overlapping pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if _UNSPACED.match(word):
            found.extend([word] if len(word) == 1 else [word[i : i + 2] for i in range(len(word) - 1)])
        else:
            found.append(word.split("'")[0].split("’")[0] or word)
    return found


def stems(text: str) -> list[str]:
    """Stems of the words that carry content, in reading order, repeated as they repeat."""
    return [str(stem) for stem in _stemmer().stemWords([word for word in words(text) if word not in FUNCTION_WORDS])]


def stem(word: str) -> str:
    """The stem of one case-folded word."""
    return str(_stemmer().stemWord(word))


def numbers(text: str) -> set[str]:
    """Numbers, with digit grouping removed and small English number words in digits.

    `1,000` and `1000` are the same number, and so are `ten` and `10`. `one` is a pronoun too often to count.
    """
    plain = unicodedata.normalize("NFKC", text)
    written = {regex.sub(r",(?=\d{3}\b)", "", number).rstrip(".,:%") for number in _NUMBER.findall(plain)}
    return written | {_NUMBER_WORDS[word.casefold()] for word in _NUMBER_WORD.findall(plain)}


def negations(text: str) -> int:
    """How many words of negation a text holds, in the more common European and East Asian languages."""
    return len(_NEGATION.findall(text))


def quoted_terms(text: str) -> set[str]:
    """Terms set in quotation marks or back quotes, case-folded and stripped."""
    return {term.strip().casefold() for match in _QUOTED.findall(text) for term in match if term.strip()}
