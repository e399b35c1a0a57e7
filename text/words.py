"""The words of a text as they are compared: stems, numbers, negations, quoted terms.

Made for judging whether two short texts say the same things, in any language. Texts fall into words as
`text.tokenizer` cuts them; only what is left out differs, for a comparison must not hang on `please` or `would`,
while a search profits from them.
"""

from __future__ import annotations

import unicodedata

import regex

from text.tokenizer import STOP_WORDS, split, stemmed

_CLITIC = regex.compile(r"(?<=\w)['’](?:s|t|re|ve|ll|d|m)\b", regex.IGNORECASE)
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

_MORE = """
    also cannot could done either else ever every get gets give know let like may might much must need neither never
    none nothing please shall tell thing things us use want whose without would yes
"""
# The rest of "o'clock" to a search, and half of "P.O. Box" to a reader.
FUNCTION_WORDS = STOP_WORDS.union(_MORE.split()) - {"o"}
"""English words that carry little content; other languages are served by idf weights where it matters."""


def words(text: str) -> list[str]:
    """Case-folded words in reading order, without what an apostrophe appends to them."""
    return [word for _, parts in split(_CLITIC.sub("", text)) for word in parts]


def stems(text: str) -> list[str]:
    """Stems of the words that carry content, in reading order, repeated as they repeat."""
    return stemmed([word for word in words(text) if word not in FUNCTION_WORDS])


def stem(word: str) -> str:
    """The stem of one case-folded word."""
    return stemmed([word])[0]


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
