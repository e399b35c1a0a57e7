"""How a text falls into words, how words are stemmed, and the terms of a text for BM25.

A text is NFKC-normalised and case-folded. A word is a run of letters, marks and digits in any script;
runs of scripts written without spaces become overlapping bigrams. BM25 leaves English stop words out, and keeps an
identifier such as `--dry-run`, `foo_bar` or `v1.2` whole beside its parts, so that it is found either way.
Comparing texts by their words is `text.words`'.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

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
_PARTS = re.compile(f"[{_JOINERS}]+")
_SIGNS = r"(?:\+\+|#(?!\w))?"  # C++, C#
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))

_local = threading.local()


def tokenize(text: str) -> list[str]:
    """The terms of a text, repeated as often as they occur; identifiers before their parts."""
    terms: list[str] = []
    for whole, parts in split(text):
        if whole:
            terms.append(whole)
        terms.extend(parts)
    return stemmed([term for term in terms if _is_term(term)])


def split(text: str) -> Iterator[tuple[str, list[str]]]:
    """The words of a text in reading order, folded: each an identifier, or empty, and the words it is made of."""
    if text.isascii():
        runs = [(run, False) for run in _ascii_words().findall(text.lower())]
    else:
        text = unicodedata.normalize("NFKC", text).translate(_INVISIBLE).casefold()
        runs = [(match.group(), match.lastgroup == "unspaced") for match in _unicode_words().finditer(text)]
    for run, unspaced in runs:
        parts = _bigrams(run) if unspaced else _PARTS.split(run)
        yield run if len(parts) > 1 and not unspaced else "", parts


def _is_term(term: str) -> bool:
    # A lone letter is mostly an initial or what an apostrophe left over; a lone digit is a step or a form.
    return term not in STOP_WORDS and (len(term) > 1 or not term.isascii() or term.isdigit())


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def stemmed(words: Sequence[str]) -> list[str]:
    """The stems of case-folded words, one each."""
    if not hasattr(_local, "stemmer"):
        import Stemmer

        # A stemmer keeps a cache inside and is not to be shared between threads.
        _local.stemmer = Stemmer.Stemmer("english")
    stems: list[str] = _local.stemmer.stemWords(words)
    return stems


@lru_cache(maxsize=1)
def _ascii_words() -> re.Pattern[str]:
    return re.compile(rf"[a-z0-9]+(?:[{_JOINERS}]+[a-z0-9]+)*{_SIGNS}")


@lru_cache(maxsize=1)
def _unicode_words() -> re.Pattern[str]:
    # `\w` leaves out combining marks, without which Hindi or pointed Hebrew falls apart.
    letters = rf"\w{_marks()}"
    plain = rf"(?:(?![{_UNSPACED}_])[{letters}])"
    return re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|{plain}+(?:[{_JOINERS}]+{plain}+)*{_SIGNS}")


def _marks() -> str:
    """Ranges of all combining marks, for a character class; above the first two planes there are no letters' marks."""
    marks = [code for code in range(0x20000) if unicodedata.category(chr(code)).startswith("M")]
    ranges: list[list[int]] = []
    for code in marks:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
