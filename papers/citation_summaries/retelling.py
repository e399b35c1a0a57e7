"""Sentences of a source in a model's words: at most five, each linked to those it stands on, each checked by code.

A sentence goes where it brings a number, a name, a negation, an address, markup or an instruction that the source's
sentences lack; one that they hardly support is marked. Where none is left, or the model fails, the quotations remain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import regex

from papers.asking import QuoteAsker
from papers.citation_summaries.setups import Citance, SetupRanker, WhyFound, WhyPlan, WhySentence
from papers.rewrite_checks import CITATION, FORBIDDEN, MARKER, ORDERS, EvidenceTexts
from plugins.evidence.explain import SENTENCES
from plugins.evidence.source import SourcePassage, clipped
from server.turn.support import SUPPORTED
from text.sanitize import is_showable
from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, numbers, stems, words

WORDS = 512
TOKENS = 260
"""Words a writer is shown, and tokens it may write."""
UNIT_CHARS = 1200
LINKS = 2
"""Sentences that one of a model's is linked to at most."""

PROMPTS = {
    "sentences": "papers.citation_summaries.prompts:why",
    "paragraphs": "papers.citation_summaries.prompts:why_paragraphs",
}
_SUBJECT = regex.compile(r"\b([Ww]e|I)((?: (?:also|then|first|now|\w+ly))?) (\w+)(?: and (\w+))?")
_FIRST = (
    (regex.compile(r"\b(?:we|us|I)\b"), "the document"),
    (regex.compile(r"\b(?:We|Us)\b"), "The document"),
    (regex.compile(r"\b(?:our|my)\b"), "the document’s"),
    (regex.compile(r"\b(?:Our|My)\b"), "The document’s"),
)
_OTHER_FORMS = {"are": "is", "am": "is", "were": "was", "have": "has", "do": "does"}
_SAME_FORM = regex.compile(
    r"can|could|may|might|must|shall|should|will|would|had|did|was|became|began|bought|brought|built|chose|dealt|drew"
    r"|found|gave|got|held|kept|knew|led|left|let|made|met|put|ran|read|said|saw|sent|set|showed|spent|split|took|taught"
    r"|thought|told|wrote|\w+ed"
)
_NAME = regex.compile(r"\p{Lu}[\p{L}\p{N}\-]*\p{L}[\p{L}\p{N}\-]*")
_LABEL = regex.compile(r"^\s*(?:(?:paraphrase|summary|answer)\s*:|[-*•]|\[?\d+[.)\]]:?)\s*", regex.I | regex.MULTILINE)


async def explain(ranker: SetupRanker, citance: Citance, plan: WhyPlan, asker: QuoteAsker | None = None) -> WhyFound:
    """What of a source bears on a citing sentence: quoted, or with an `asker` in its words. Raises AskingFailed.

    What blocks is done in a thread.
    """
    found = await asyncio.to_thread(ranker.find, citance, plan)
    return found if asker is None or not found.bears else await retell(found, citance, plan, asker)


async def retell(found: WhyFound, citance: Citance, plan: WhyPlan, asker: QuoteAsker) -> WhyFound:
    """The same in a model's words, as far as the guard lets them stand; else the quotations. Raises AskingFailed."""
    given, room = list[SourcePassage](), WORDS
    for one in found.given:
        # A sentence that gives orders is quoted to people, and shown to no model.
        text = clipped(one.text, UNIT_CHARS)
        if room < len(text.split()) or ORDERS.search(text):
            continue
        room -= len(text.split())
        given.append(replace(one, text=text))
    if not given:
        return found
    parts = {
        "units": "\n".join(" ".join(one.text.split()) for one in given),
        "citance": f"They are read beside this sentence: {citance.text}\n\n" if plan.told else "",
    }
    said = await asker.ask(PROMPTS[plan.units], parts, TOKENS)
    shown, refused = await asyncio.to_thread(checked, said, given)
    return replace(found, shown=tuple(shown) or found.shown, refused=refused)


def checked(said: str, given: Sequence[SourcePassage]) -> tuple[list[WhySentence], str]:
    """The sentences of a model's text that may stand, in its order, and why others may not."""
    said = _SUBJECT.sub(_of_document, _LABEL.sub("", said))
    for pattern, instead in _FIRST:
        said = pattern.sub(instead, said)
    evidence = EvidenceTexts(one.text for one in given)
    each = [(one, EvidenceTexts([one.text])) for one in given]
    shown, reasons = list[WhySentence](), dict[str, None]()
    for start, end in sentence_spans(said):
        text = " ".join(said[start:end].split())
        if not stems(text):
            continue
        if len(shown) == SENTENCES:
            reasons[f"More than {SENTENCES} sentences were written."] = None
            break
        if reason := sentence_refused(text, evidence):
            reasons[reason] = None
            continue
        ids, support = _links(text, each)
        shown.append(WhySentence(ids, text, support))
    return shown, " ".join(reasons)


def sentence_refused(sentence: str, evidence: EvidenceTexts) -> str:
    """Why a sentence in a model's words may not stand for what the texts say; empty where it may."""
    if not is_showable(sentence):
        return "A sentence contains characters that are unsafe to show."
    joined = "\n".join(evidence.texts)
    for pattern, what in FORBIDDEN:
        match = pattern.search(sentence)
        if match and not (pattern is CITATION and match.group() in joined):
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


def _of_document(match: regex.Match[str]) -> str:
    """A subject of the first person as the document, with its verbs in the third person singular."""
    subject = "The document" if match[1] == "We" else "the document"
    return subject + match[2] + " " + " and ".join(_singular(verb) for verb in (match[3], match[4]) if verb)


def _singular(verb: str) -> str:
    """A verb that stands behind "we" as it stands behind "it"; past tenses and modal verbs have one form."""
    if verb in _OTHER_FORMS or _SAME_FORM.fullmatch(verb):
        return _OTHER_FORMS.get(verb, verb)
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def _links(text: str, given: Sequence[tuple[SourcePassage, EvidenceTexts]]) -> tuple[tuple[str, ...], float]:
    """The one or two sentences that support a text best, in the order given, and how well they do."""
    scores = [evidence.score(text) for _, evidence in given]
    best = sorted(sorted(range(len(given)), key=lambda place: -scores[place])[:LINKS])
    alone = max(best, key=scores.__getitem__)
    both = EvidenceTexts(given[place][0].text for place in best).score(text)
    if both <= scores[alone]:
        return (given[alone][0].id,), scores[alone]
    return tuple(given[place][0].id for place in best), both
