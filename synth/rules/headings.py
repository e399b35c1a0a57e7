"""Questions of headings: "Refunds" under "Online orders" gives "How do refunds work for online orders?".

A heading that is a question (an FAQ entry) is taken as it stands; one that names an action is asked how to; one that
names a thing is asked about, together with the heading above it where it means little alone ("Requirements").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import regex

from synth.rules.lexicon import readings, verb_forms, word_list
from synth.rules.phrases import Phrase, chunks, phrase_of, user_words
from synth.rules.questions import Optional, Question, Ref, question
from synth.rules.tagging import tagged

_SPACES = regex.compile(r"\s+")
_HOW_TO = regex.compile(r"(?:how (?:to|do i|can i)|ways to)\s+(.+)")
_NUMBERING = regex.compile(r"^(?:\d+(?:\.\d+)*[.):]?|[a-z][.)]|step \d+:?|part \d+:?)\s+", regex.IGNORECASE)
_CODE = regex.compile(r"[{}<>|=\\^~@#\[\]]|https?:")
# Facets of the thing named by the heading above, and how they are asked for.
_FACETS: dict[str, tuple[str, ...]] = {
    "requirement": ("What are the requirements", "What do I need"),
    "eligibility": ("Who is eligible", "What are the eligibility requirements"),
    "fee": ("What are the fees", "How much are the fees"),
    "cost": ("How much does it cost", "What are the costs"),
    "deadline": ("What is the deadline", "What are the deadlines"),
    "limitation": ("What are the limitations", "Are there limitations"),
    "limit": ("What are the limits", "Are there limits"),
    "example": ("What is an example", "Can you give me an example"),
    "option": ("What are the options", "Which options are there"),
    "parameter": ("What are the parameters", "Which parameters are there"),
    "argument": ("What are the arguments", "Which arguments are there"),
    "installation": ("How does the installation work", "What do I have to install"),
    "configuration": ("How does the configuration work", "What can I configure"),
    "exception": ("What are the exceptions", "Are there exceptions"),
    "benefit": ("What are the benefits", "Which benefits are there"),
    "advantage": ("What are the advantages", "Why are there advantages"),
    "prerequisite": ("What are the prerequisites", "What do I need beforehand"),
    "step": ("What are the steps", "Which steps are there"),
    "document": ("Which documents do I need", "What documents are required"),
    "refund": ("How do refunds work", "Can I get a refund"),
    "output": ("What is the output", "What output is there"),
    "input": ("What is the input", "What input is needed"),
    "note": (),
    "overview": ("What is there to know", "Can you give me an overview"),
    "usage": ("What is the usage", "How does the usage work"),
    "troubleshooting": ("How does troubleshooting work", "What can go wrong"),
    "payment": ("How do payments work", "When are payments made"),
}
_POINTING = word_list("it its this that these those they them their here we our us")
_EMPTY = word_list(
    "introduction overview notes note related links see also next recap summary conclusion more contents "
    "description synopsis inputs outputs examples parameters about faq index home"
)


def heading_topic(heading: str) -> Phrase | None:
    """The phrase a heading is, if it is one."""
    tokens = tagged(_cleaned(heading))
    if not 1 <= len(tokens) <= 7 or heading.lower() in _EMPTY:
        return None
    found = chunks(tokens, opens=True)
    if len(found) == 1 and found[0].start == 0 and found[0].end == len(tokens):
        phrase = _uncapitalised_phrase(found[0].phrase)
        if phrase.named or phrase.plural or phrase.text != phrase.core or not phrase.kind or phrase.kind == "process":
            return phrase
        return replace(phrase, text=f"the {phrase.core}")
    return None


def heading_questions(heading: str, above: str, answer: int) -> Iterator[Question]:
    """Questions for one heading; `above` is the heading over it or the title, `answer` the place of what follows."""
    text = _cleaned(heading)
    if not 3 <= len(text) <= 110 or _CODE.search(text):
        return
    parent = heading_topic(above) if above else None
    tokens = tagged(text)
    if any(token.lower in _POINTING for token in tokens):
        return
    if text.endswith("?"):
        if len(tokens) > 3:
            yield question(tuple(_with_phrases(text)), _kind(tokens[0].lower), "faq", answer)
        return
    lower = text.lower()
    how_to = _HOW_TO.match(lower)
    if how_to:
        tokens = tagged(text[how_to.start(1) :])
    if (len(tokens) > 1 and tokens[0].tag in {"VB", "VBG"}) or how_to:
        yield from _action_heading(tokens, parent, answer)
        return
    facet = next((asked for name, asked in _FACETS.items() if lower in {name, f"{name}s", f"{name[:-1]}ies"}), ())
    if facet and parent is not None:
        for opener in facet:
            yield question((opener, Optional((" for ", Ref(parent, "object"))), "?"), "what", "heading-facet", answer)
        return
    topic = heading_topic(text)
    if topic is None or lower in _EMPTY:
        return
    work = "work" if topic.plural else "works"
    if parent is not None and parent.key != topic.key:
        tail = Optional((" for ", Ref(parent, "object")))
        do = "do" if topic.plural else "does"
        yield question(
            (f"How {do} ", Ref(topic, "subject"), " work", tail, "?"), "how", "heading-under-heading", answer
        )
        yield question(
            ("What should I know about ", Ref(topic, "object"), Optional((" in ", Ref(parent, "object"))), "?"),
            "what",
            "heading-under-heading",
            answer,
        )
    else:
        yield question(("Tell me how ", Ref(topic, "subject"), f" {work}."), "tell", "heading-topic", answer)
    be = "are" if topic.plural else "is"
    yield question((f"What {be} ", Ref(topic, "subject"), "?"), "what", "heading-topic", answer)
    yield question(("Tell me about ", Ref(topic, "object"), "."), "tell", "heading-topic", answer)


def _action_heading(tokens: tuple[object, ...], parent: Phrase | None, answer: int) -> Iterator[Question]:
    from synth.rules.tagging import Token

    words = [token for token in tokens if isinstance(token, Token)]
    lemma, forms = verb_forms(words[0].lower)
    if not lemma or not forms & {"VB", "VBG"} or len(words) < 2:
        return
    rest = words[1:]
    found = chunks(rest)
    parts: list[str | Ref | Optional] = [f"{lemma}"]
    at = 0
    for chunk in found:
        if rest[at : chunk.start]:
            parts.append(" " + _lower_words(user_words(rest[at : chunk.start])))
        parts.append(" ")
        parts.append(Ref(_uncapitalised_phrase(chunk.phrase), "object"))
        at = chunk.end
    if rest[at:]:
        parts.append(" " + _lower_words(user_words(rest[at:])))
    if parent is not None and found and parent.key not in {chunk.phrase.key for chunk in found} and not parent.person:
        parts.append(Optional((" for ", Ref(parent, "object"))))
    action = f"{lemma} {_lower_words(user_words(rest))}"
    for opener in ("How do I ", "How can I ", "What do I have to do to "):
        yield question((opener, *parts, "?"), "how", "heading-action", answer, action)


def _with_phrases(text: str) -> Iterator[str | Ref]:
    tokens = tagged(text)
    at = 0
    opened = False
    for chunk in chunks(tokens, opens=False):
        before = tokens[at : chunk.start]
        if before:
            yield (" " if opened and before[0].spaced else "") + "".join(
                (" " if one.spaced and place else "") + one.text for place, one in enumerate(before)
            )
            opened = True
        if opened and tokens[chunk.start].spaced:
            yield " "
        yield Ref(chunk.phrase, "object")
        opened = True
        at = chunk.end
    if tokens[at:]:
        yield (" " if tokens[at].spaced else "") + "".join(
            (" " if one.spaced and place else "") + one.text for place, one in enumerate(tokens[at:])
        )


def _kind(first: str) -> str:
    return first if first in {"what", "how", "when", "where", "who", "why", "which"} else "yes_no"


def _cleaned(heading: str) -> str:
    return _SPACES.sub(" ", _NUMBERING.sub("", heading.strip(" :-–—*."))).strip()


def _lower_words(text: str) -> str:
    """Title case taken back where the dictionary knows the words."""
    return " ".join(
        word.lower() if word[:1].isupper() and word[1:].islower() and readings(word.lower()) else word
        for word in text.split(" ")
    )


def _uncapitalised_phrase(phrase: Phrase) -> Phrase:
    """A heading's phrase as it stands within a sentence ("Online Orders" → "online orders")."""
    words = phrase.core.split()
    if len(words) < 2 and not (words and readings(words[0].lower())):
        return phrase
    core = _lower_words(phrase.core)
    if core == phrase.core:
        return phrase
    again = phrase_of(tagged(_lower_words(phrase.text)))
    return again or phrase
