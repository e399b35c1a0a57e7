"""English words: what they can be, and their inflected forms.

Closed classes are listed here; open ones come from `lemminflect`, whose dictionary lies in its wheel and needs no
download (spaCy's models do, and NLTK's tagger data too). Which of its readings a word has in a sentence is decided
by `synth.rules.tagging`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

Tag: TypeAlias = Literal[
    "DT", "PRP", "PRP$", "MD", "BE", "HAVE", "DO", "TO", "IN", "SUB", "WH", "CC", "CD", "NOT", "RB", "JJ",
    "NN", "NNS", "NNP", "VB", "VBZ", "VBD", "VBN", "VBG", "PUNCT", "SYM", "EX",
]  # fmt: skip
"""Tags in the manner of the Penn Treebank, with own ones for auxiliaries, subordinators and "there"."""


def word_list(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


DETERMINERS = word_list(
    "a an the this that these those each every any some no another all both either neither most many several few"
)
PRONOUNS = word_list(
    "i you he she it we they me him her us them himself herself itself myself yourself yourselves ourselves "
    "themselves mine yours hers ours theirs someone somebody anyone anybody everyone everybody something "
    "anything everything nothing"
)
POSSESSIVES = word_list("my your his her its our their")
MODALS = word_list("can could may might must shall should will would cannot")
BE = word_list("am is are was were be been being")
HAVE = word_list("have has had having")
DO = word_list("do does did")
PREPOSITIONS = word_list(
    "of in on at by for with from into onto about over under above below between among through throughout "
    "during against within without across along behind beyond near off per toward towards upon via like "
    "except despite inside outside around plus regarding concerning including as than up down out"
)
SUBORDINATORS = word_list(
    "if when whenever while because since unless until although though whereas once after before whether that so"
)
WH = word_list("what which who whom whose where why how")
CONJUNCTIONS = word_list("and or but nor")
NEGATIONS = word_list("not n't never")
ADVERBS = word_list(
    "also only just already still even then now often always usually sometimes soon again too very more less "
    "most least not currently automatically directly online once twice here there however therefore instead "
    "otherwise later first generally normally typically simply well together apart away back ago almost quite "
    "rather perhaps maybe"
)
NUMBERS = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty "
    "sixty ninety hundred thousand million billion dozen half"
)
# Words whose verb reading is too rare to be worth a wrong guess.
_NEVER_VERB = word_list(
    "people time day days year years month months week weeks number numbers way ways information data system "
    "systems person case cases fact part parts section sections page pages family children child office "
    "offices agency state states example version versions type types method methods value values class "
    "classes parameter parameters one ones status better best only well other own such same able due likely "
    "available eligible present subject current clear open free complete total level levels business money "
    "insurance health service services doctor area hour hours minute minutes item items default defaults "
    "language languages term terms age ages school schools program programs website evidence amount amounts"
)
_GERUND_NOUNS = word_list(
    "parking mailing billing shipping training housing operating building meeting processing driving voting "
    "banking engineering learning testing hosting marketing pricing funding nursing boarding gardening "
    "catering"
)
_PREFERRED_VERB = word_list(
    "need needs want wants get gets make makes use uses apply applies require requires include includes allow allows"
)
_NEVER_NOUN = word_list("make get want include includes allow must can will may could should take use be go see")
_IRREGULAR_PLURAL = word_list("people children men women data criteria media alumni feet teeth indices vertices")


_VERB_TAGS: tuple[Tag, ...] = ("VB", "VBZ", "VBD", "VBN", "VBG")


@lru_cache(maxsize=60_000)
def readings(word: str) -> dict[str, tuple[str, ...]]:
    """Lemmas of a lower-case word by part of speech (`NOUN`, `VERB`, `ADJ`, `ADV`); empty for unknown words."""
    from lemminflect import getAllLemmas

    found: dict[str, tuple[str, ...]] = {
        kind: lemmas for kind, lemmas in getAllLemmas(word).items() if kind in {"NOUN", "VERB", "ADJ", "ADV"}
    }
    if word in _GERUND_NOUNS:
        found["NOUN"] = (word,)
    if word in _NEVER_VERB:
        found.pop("VERB", None)
    if word in _NEVER_NOUN:
        found.pop("NOUN", None)
    return found


@lru_cache(maxsize=60_000)
def verb_forms(word: str) -> tuple[str, frozenset[Tag]]:
    """The lemma of a lower-case word as a verb and the tags it may have (`VB`, `VBZ`, …); ("", nothing) for none."""
    from lemminflect import getAllInflections

    lemmas = readings(word).get("VERB")
    if not lemmas:
        return "", frozenset()
    lemma = lemmas[0]
    forms = getAllInflections(lemma, upos="VERB")
    tags: set[Tag] = {tag for tag in _VERB_TAGS if word in forms.get(tag, ())}
    if "VBD" in tags and "VBN" not in forms:  # left out where both are alike
        tags.add("VBN")
    if word in forms.get("VBP", ()):
        tags.add("VB")
    if not tags:  # the dictionary knows the lemma but not this form
        tags = {"VBG"} if word.endswith("ing") else {"VBD", "VBN"} if word.endswith("ed") else {"VBZ"}
    return lemma, frozenset(tags)


@lru_cache(maxsize=20_000)
def inflected(lemma: str, tag: Literal["VBZ", "VBG", "VBN", "VBD"]) -> str:
    """A verb's form: `inflected("apply", "VBG")` is "applying"; regular where the verb is unknown."""
    from lemminflect import getInflection

    if lemma == "be":
        return {"VBZ": "is", "VBG": "being", "VBN": "been", "VBD": "was"}[tag]
    found: tuple[str, ...] = getInflection(lemma, tag)
    return str(found[0]) if found else lemma


@lru_cache(maxsize=60_000)
def is_plural(word: str) -> bool:
    """Whether a lower-case noun is a plural, by the dictionary or by its ending."""
    if word in _IRREGULAR_PLURAL:
        return True
    lemmas = readings(word).get("NOUN")
    if lemmas:
        return any(lemma != word for lemma in lemmas) and word.endswith(("s", "en", "i", "a"))
    return len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "as", "os"))


@lru_cache(maxsize=60_000)
def singular(word: str) -> str:
    """A noun's lemma, or the word itself."""
    lemmas = readings(word).get("NOUN")
    if lemmas:
        return next((lemma for lemma in lemmas if lemma != word), word) if is_plural(word) else word
    return word[:-1] if is_plural(word) else word


def candidates(word: str) -> frozenset[Tag]:
    """The tags a lower-case word of an open class may have; a noun where nothing is known of it."""
    found: set[Tag] = set()
    known = readings(word)
    if "NOUN" in known:
        found.add("NNS" if is_plural(word) else "NN")
    if "ADJ" in known:
        found.add("JJ")
    if "ADV" in known:
        found.add("RB")
    if "VERB" in known:
        found.update(verb_forms(word)[1])
    if not found:
        return frozenset({_unknown(word)})
    return frozenset(found)


def prefers_verb(word: str) -> bool:
    """Whether a word that can be noun and verb is far more often a verb."""
    return word in _PREFERRED_VERB


def _unknown(word: str) -> Tag:
    if word.endswith("ly"):
        return "RB"
    if word.endswith("ing") and len(word) > 5:
        return "VBG"
    if word.endswith("ed") and len(word) > 4:
        return "VBN"
    if word.endswith(("able", "ible", "ous", "ful", "less", "ical", "based")):
        return "JJ"
    return "NNS" if is_plural(word) else "NN"


CLOSED: dict[str, Tag] = {
    **{word: "RB" for word in ADVERBS},
    **{word: "IN" for word in PREPOSITIONS},
    **{word: "SUB" for word in SUBORDINATORS},
    **{word: "WH" for word in WH},
    **{word: "CC" for word in CONJUNCTIONS},
    **{word: "CD" for word in NUMBERS},
    **{word: "DT" for word in DETERMINERS},
    **{word: "PRP" for word in PRONOUNS},
    **{word: "PRP$" for word in POSSESSIVES},
    **{word: "MD" for word in MODALS},
    **{word: "BE" for word in BE},
    **{word: "HAVE" for word in HAVE},
    **{word: "DO" for word in DO},
    **{word: "NOT" for word in NEGATIONS},
    "there": "EX",
    "to": "TO",
}
"""Tags of words of closed classes; those with two readings ("that", "after", "her") are settled in the sentence."""
