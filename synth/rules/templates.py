"""Questions that can be asked of any phrase or action of a certain class, whether or not the document answers them.

A template holds `{s}` (the phrase as subject), `{o}` (as object), `{p}` (as possessor), `{a}` (an action as an
infinitive), verbs that agree (`{is}`, `{does}`, `{has}`, `{was}`), and in square brackets what may be left out when
the phrase is understood. The words around them are plain question words, so that a rewrite copies all it says.
"""

from __future__ import annotations

from functools import lru_cache

import regex

from synth.rules.asking import Action
from synth.rules.phrases import Phrase
from synth.rules.questions import Case, Optional, Part, Question, Ref, question

_ANY = """
What {is} {s}?
What {is} {s} used for?
What {does} {s} do?
How {does} {s} work?
Why {is} {s} important?
Who can use {o}?
When {is} {s} needed?
When do I need {o}?
Do I need {o}?
Is there anything else I should know about {o}?
What else is there to know[ about {o}]?
Tell me more[ about {o}].
Can you tell me more about {o}?
Can you explain {o}?
Where can I read more[ about {o}]?
Where can I find {o}?
What are examples of {o}?
Can you give me an example[ of {o}]?
What does it mean for {o}?
Are there any exceptions[ for {o}]?
Are there any limits[ on {o}]?
What are the advantages[ of {o}]?
What are {p} disadvantages?
What is {p} purpose?
Who is responsible for {o}?
Is there an alternative[ to {o}]?
What happens without {o}?
What should I know about {o}?
What problems can I have with {o}?
{is} {s} required?
{is} {s} always needed?
{is} {s} optional?
{is} {s} free?
What are the rules[ for {o}]?
What are the main types[ of {o}]?
"""

_BY_KIND = {
    "form": """
Where do I get {o}?
How do I get {o}?
Where do I send {o}?
Who has to sign {o}?
How long {is} {s} valid?
When {does} {s} expire?
How much {does} {s} cost?
What information {does} {s} need?
Can I submit {o} online?
Do I need to bring {o}?
How do I fill out {o}?
What if I lose {o}?
Can I replace {o}?
How do I renew {o}?
Can someone else sign {o} for me?
What has to be in {o}?
Is there a deadline[ for {o}]?
Is there a fee[ for {o}]?
What is the processing time[ for {o}]?
Who accepts {o}?
""",
    "benefit": """
Who is eligible[ for {o}]?
Am I eligible[ for {o}]?
How do I apply[ for {o}]?
When can I apply[ for {o}]?
What are the requirements[ for {o}]?
What do I need to apply[ for {o}]?
Who qualifies[ for {o}]?
How do I qualify for {o}?
How much {is} {s}?
What {does} {s} cover?
Can I lose {o}?
When {does} {s} end?
When {does} {s} start?
Can I cancel {o}?
Do I have to pay taxes on {o}?
Can my spouse get {o}?
Is there a limit[ on {o}]?
Who pays for {o}?
Can I still get {o} if I move?
Who do I contact[ about {o}]?
What is {p} maximum amount?
""",
    "office": """
How do I contact {o}?
Where {is} {s}?
What are the opening hours[ of {o}]?
What {is} {s} responsible for?
Can I visit {o} in person?
Do I need an appointment[ with {o}]?
What {is} {p} phone number?
What {is} {p} address?
Who decides at {o}?
How long {does} {s} take to answer?
What can {s} do for me?
Will {s} contact me?
Can I write to {o}?
""",
    "person": """
What {does} {s} have to do?
Who counts as {o}?
What rights {does} {s} have?
Are there special rules[ for {o}]?
Can {s} apply online?
What help is there[ for {o}]?
What {does} {s} need?
How {does} {s} apply?
Who can help {o}?
What happens to {o}?
How much {does} {s} get?
How much {does} {s} pay?
{does} {s} have to sign anything?
Where can {s} get help?
What {is} {p} responsibilities?
Is it free[ for {o}]?
Which programs are there[ for {o}]?
""",
    "software": """
How do I install {o}?
How do I create {o}?
How do I configure {o}?
How do I use {o}?
How do I delete {o}?
How do I update {o}?
What {does} {s} return?
What {does} {s} contain?
What parameters {does} {s} take?
Which options {does} {s} have?
Which versions {does} {s} support?
Which languages {does} {s} support?
{does} {s} support filters?
{does} {s} work on Windows?
What are {p} limits?
What are {p} default settings?
What errors can {s} raise?
How fast {is} {s}?
Can I use {o} in production?
How do I debug {o}?
How do I test {o}?
Is there a limit on the size[ of {o}]?
What is the syntax[ of {o}]?
Can I share {o}?
Where {is} {s} stored?
How many of {o} can I have?
How do I get started[ with {o}]?
{is} {s} deprecated?
""",
    "setting": """
What values can {s} have?
What is the default[ for {o}]?
What is {p} default value?
What type {is} {s}?
How do I set {o}?
How do I change {o}?
Where do I set {o}?
{is} {s} case sensitive?
Can I leave out {o}?
What happens if I leave out {o}?
When should I change {o}?
What is the maximum[ of {o}]?
Which format {does} {s} have?
""",
    "money": """
How much {is} {s}?
When do I have to pay {o}?
How do I pay {o}?
Who pays {o}?
Can I get back {o}?
{is} {s} refundable?
What {does} {s} depend on?
Can {s} be waived?
How {is} {s} calculated?
Can I pay {o} by card?
What happens if I don't pay {o}?
{does} {s} change every year?
""",
    "period": """
How long {is} {s}?
When {does} {s} start?
When {does} {s} end?
Can {s} be extended?
What happens after {o}?
How {is} {s} calculated?
What if I miss {o}?
""",
    "process": """
How long {does} {s} take?
How do I start {o}?
When {does} {s} start?
What are the steps[ of {o}]?
What do I need for {o}?
How much {does} {s} cost?
Who is in charge of {o}?
Can I stop {o}?
What happens during {o}?
What happens after {o}?
Can {s} fail?
What are the requirements[ for {o}]?
""",
    "": """
How do I get {o}?
How can I use {o}?
How can I change {o}?
What {does} {s} include?
What {does} {s} depend on?
What kinds of {o} are there?
How important {is} {s}?
Where {does} {s} come from?
How do I find {o}?
What is the difference with and without {o}?
""",
}

_ACTIONS = """
How do I {a}?
How can I {a}?
Can I {a} online?
Can I {a} by mail?
Can I {a} by phone?
Can I {a} in person?
Can I {a} later?
Where do I {a}?
When should I {a}?
When do I have to {a}?
Why should I {a}?
Do I have to {a}?
Do I need an account to {a}?
Do I need permission to {a}?
What do I need to {a}?
How long does it take to {a}?
How much does it cost to {a}?
Is it free to {a}?
Is it possible to {a}?
Is it safe to {a}?
Who can {a}?
Who can help me to {a}?
Can someone else {a} for me?
What happens if I don't {a}?
What happens after I {a}?
What is the best way to {a}?
What is the easiest way to {a}?
Is there a deadline to {a}?
Is there a fee to {a}?
How often do I have to {a}?
Should I {a}?
What if I can't {a}?
What if I forget to {a}?
Am I allowed to {a}?
Can I {a} more than once?
Where can I read how to {a}?
"""

_FIELD = regex.compile(r"\{(\w+)\}")
_CASES: dict[str, Case] = {"s": "subject", "o": "object", "p": "possessive"}
_AGREEING = {"is": ("is", "are"), "does": ("does", "do"), "has": ("has", "have"), "was": ("was", "were")}


def _listed(block: str) -> tuple[str, ...]:
    return tuple(line for line in block.strip().split("\n"))


ANY: tuple[str, ...] = _listed(_ANY)
BY_KIND: dict[str, tuple[str, ...]] = {kind: _listed(block) for kind, block in _BY_KIND.items()}
ACTIONS: tuple[str, ...] = _listed(_ACTIONS)


@lru_cache(maxsize=4)
def droppable(kind: str) -> tuple[str, ...]:
    """Templates for a class of thing in which the thing may be left out."""
    return tuple(template for template in (*BY_KIND[kind], *ANY) if "[" in template)


def of_phrase(template: str, phrase: Phrase, answer: int = -1) -> Question:
    """The template filled with a phrase."""
    parts: list[Part] = []
    for place, stretch in enumerate(regex.split(r"[\[\]]", template)):
        filled = _filled(stretch, phrase)
        if place % 2:
            parts.append(Optional(tuple(filled)))
        else:
            parts.extend(filled)
    return question(tuple(parts), _kind(template), "template", answer)


def of_action(template: str, action: Action, answer: int = -1) -> Question:
    """The template filled with an action."""
    before, after = template.split("{a}")
    return question((before, *action.parts, after), _kind(template), "action-template", answer, action.text)


def _filled(text: str, phrase: Phrase) -> list[str | Ref]:
    parts: list[str | Ref] = []
    at = 0
    for match in _FIELD.finditer(text):
        parts.append(text[at : match.start()])
        name = match.group(1)
        parts.append(Ref(phrase, _CASES[name]) if name in _CASES else _AGREEING[name][phrase.plural])
        at = match.end()
    parts.append(text[at:])
    return [part for part in parts if part]


def _kind(template: str) -> str:
    first = template.split(" ", 1)[0].lower()
    return first if first in {"what", "how", "when", "where", "who", "why", "which", "tell"} else "yes_no"
