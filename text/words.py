"""The words of a text: how it falls into them, how they are stemmed, and what is compared.

A text is NFKC-normalised and case-folded. A word is a run of letters, marks and digits in any script; runs of scripts
written without spaces become overlapping bigrams. For BM25 (`tokenize`) stop words are left out, and an identifier such
as `--dry-run`, `foo_bar` or `v1.2` stays whole beside its parts, so that it is found either way. Stems and stop words
there are those of the languages it is given; everywhere else they are English.

To compare what two short texts say there are stems, numbers, negations and quoted terms; more words are left out there.
"""

from __future__ import annotations

import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

import regex

from text.languages import ENGLISH, stemmer_name, stop_words

_STOP_WORDS = """
    a about above after again against ain all am an and any are aren as at be because been before being below
    between both but by can couldn d did didn do does doesn doing don down during each few for from further had
    hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself
    just ll m ma me mightn more most mustn my myself needn no nor not now o of off on once only or other our ours
    ourselves out over own re s same shan she should shouldn so some such t than that the their theirs them
    themselves then there these they this those through to too under until up ve very was wasn we were weren what
    when where which while who whom why will with won wouldn y you your yours yourself yourselves
    """
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""The usual English list (NLTK's), as single words: it measured better than Lucene's short one, on
doc2dial sections as on mtrag cloud, because questions are full of `how`, `do`, `can`, `my`."""

# Thai, Lao, Myanmar, Khmer, kana, Bopomofo, Han, Hangul: no spaces between words, or long compounds.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_JOINERS = r"._\-"
_PARTS = regex.compile(f"[{_JOINERS}]+")
_SIGNS = r"(?:\+\+|#(?![\p{L}\p{N}_]))?"  # C++, C#
_ASCII_WORDS = regex.compile(rf"[a-z0-9]+(?:[{_JOINERS}]+[a-z0-9]+)*{_SIGNS}")
# Combining marks too, without which Hindi or pointed Hebrew falls apart.
_LETTER = rf"(?:(?![{_UNSPACED}])[\p{{L}}\p{{M}}\p{{N}}])"
_WORDS = regex.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|{_LETTER}+(?:[{_JOINERS}]+{_LETTER}+)*{_SIGNS}")
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))

_local = threading.local()


def tokenize(text: str, languages: Sequence[str] = (ENGLISH,)) -> list[str]:
    """The terms of a text, repeated as often as they occur; identifiers before their parts.

    In several languages a word gives its term in each: a question's are looked up as alternatives.
    """
    if len(languages) == 1:
        return _terms(text, languages[0])
    alternatives = Counter[str]()
    for language in languages:
        alternatives |= Counter(_terms(text, language))
    return list(alternatives.elements())


def _terms(text: str, language: str) -> list[str]:
    stop = STOP_WORDS if language == ENGLISH else stop_words(language)
    terms: list[str] = []
    for whole, parts in split(text):
        if whole:
            terms.append(whole)
        terms.extend(parts)
    # A lone letter is mostly an initial or what an apostrophe left over; a lone digit is a step or a form.
    kept = (term for term in terms if len(term) > 1 or not term.isascii() or term.isdigit())
    return stemmed([term for term in kept if term not in stop], language)


def split(text: str) -> Iterator[tuple[str, list[str]]]:
    """The words of a text in reading order, folded: each an identifier, or empty, and the words it is made of."""
    if text.isascii():
        runs = [(run, False) for run in _ASCII_WORDS.findall(text.lower())]
    else:
        text = unicodedata.normalize("NFKC", text).translate(_INVISIBLE).casefold()
        runs = [(match.group(), match.lastgroup == "unspaced") for match in _WORDS.finditer(text)]
    for run, unspaced in runs:
        parts = [run[i : i + 2] for i in range(len(run) - 1)] or [run] if unspaced else _PARTS.split(run)
        yield run if len(parts) > 1 and not unspaced else "", parts


def stemmed(words: Sequence[str], language: str = ENGLISH) -> list[str]:
    """The stems of case-folded words, one each; in a language without a stemmer the words themselves."""
    if not hasattr(_local, "stemmers"):
        _local.stemmers = {}
    if language not in _local.stemmers:
        import Stemmer

        name = stemmer_name(language)
        # A stemmer keeps a cache inside and is not to be shared between threads.
        _local.stemmers[language] = Stemmer.Stemmer(name) if name else None
    stemmer = _local.stemmers[language]
    return list(words) if stemmer is None else list(stemmer.stemWords(words))


_CLITIC = regex.compile(r"(?<=\w)['’](?:s|t|re|ve|ll|d|m)\b", regex.IGNORECASE)
_NUMBER = regex.compile(r"(?<![\p{L}_\p{N}])\p{Nd}+(?:[.,:]\p{Nd}+)*(?:%|\b)?")
_UNITS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBER_WORDS = {word: str(n) for n, word in (*enumerate(_UNITS, 2), *zip(range(20, 100, 10), _TENS, strict=True))}
_NUMBER_WORD = regex.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b(?!-)", regex.IGNORECASE)
_QUOTED = regex.compile(r"`([^`\n]{1,80})`|\"([^\"\n]{1,80})\"|“([^”\n]{1,80})”|«([^»\n]{1,80})»|「([^」\n]{1,80})」")
NEGATION = regex.compile(
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
"""English words that carry little content."""


def words(text: str) -> list[str]:
    """Case-folded words in reading order, without what an apostrophe appends to them."""
    return [word for _, parts in split(_CLITIC.sub("", text)) for word in parts]


def stems(text: str, language: str = ENGLISH) -> list[str]:
    """Stems of the words that carry content, in reading order, repeated as they repeat."""
    little = FUNCTION_WORDS if language == ENGLISH else stop_words(language)
    return stemmed([word for word in words(text) if word not in little], language)


def stem(word: str) -> str:
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
    return len(NEGATION.findall(text))


def quoted_terms(text: str) -> set[str]:
    """Terms set in quotation marks or back quotes, case-folded and stripped."""
    return {term.strip().casefold() for match in _QUOTED.findall(text) for term in match if term.strip()}
