"""The last question again with something else in it: another thing, another way, another condition, a comparison.

Each function is a move of the asking person; its name, with dashes, is the rule's name in the rows.
"""

from __future__ import annotations

from synth.rules.dialog import Dialog, Step
from synth.rules.phrases import Phrase
from synth.rules.pointing import pronoun, same_topic
from synth.rules.questions import Optional, Question, Ref, refs, rendered, replaced
from synth.rules.standing import shift, step_of
from synth.rules.style import small

_MANNERS = (
    "online",
    "by mail",
    "by phone",
    "in person",
    "by email",
    "by fax",
    "on weekends",
    "for free",
    "from abroad",
    "on my phone",
    "without an account",
    "in advance",
    "later",
    "at home",
    "from my computer",
    "on Windows",
    "on Linux",
    "in the browser",
    "from the command line",
    "with a script",
    "automatically",
    "at the office",
    "with a credit card",
    "in another state",
)


def _others_like(dialog: Dialog, phrase: Phrase) -> Phrase | None:
    groups = [f"head:{phrase.head}:{phrase.plural}", f"{phrase.kind}:{phrase.plural}"]
    pool = [
        other for group in groups for other in dialog.material.alike.get(group, ())
        if other.key != phrase.key and (dialog.asked is None or other.key not in dialog.asked.keys)
    ]  # fmt: skip
    return dialog.random.choice(pool) if pool else None


_INSTEAD = (
    "and {x}?",
    "what about {x}?",
    "how about {x}?",
    "and what about {x}",
    "{x}?",
    "same for {x}?",
    "is it the same for {x}?",
    "also {x}?",
    "and with {x}?",
    "does that go for {x} too?",
    "{x} too?",
    "or {x}?",
)


_WITH_PREPOSITION = (
    "and {x}?",
    "{x}?",
    "what about {x}?",
    "also {x}?",
    "{x} as well?",
    "even {x}?",
    "only {x}?",
    "how about {x}?",
    "and what {x}?",
    "or {x}?",
)


def _swap(dialog: Dialog) -> tuple[Question, Phrase, Phrase, Question] | None:
    """The last question, one of its phrases, another like it, and the question about that; None where none is known."""
    one = dialog.asked
    if one is None or not one.phrases or not dialog.rewrite or rendered(one.parts) != dialog.rewrite:
        return None
    named = list(refs(one.parts))
    if not named:
        return None
    phrase = dialog.random.choice(named).phrase
    other = _others_like(dialog, phrase)
    if other is None:
        return None
    changed = replaced(one.parts, phrase.key, other)
    made = Question(changed, one.kind, one.rule, -1, "", tuple(found.phrase for found in refs(changed)))
    return one, phrase, other, made


def instead(dialog: Dialog) -> Step | None:
    """The last question about something else: "and for a replacement card?"."""
    swap = _swap(dialog)
    if swap is None:
        return None
    one, phrase, other, made = swap
    rng, rewrite = dialog.random, rendered(made.parts)
    short = _as_one(phrase, other)
    if short and rng.random() < 0.5:
        typed = rng.choice(
            ("and {x}?", "what about {x}?", "{x}?", "how about {x}?", "is it the same for {x}?", "{x} too?")
        ).replace("{x}", short)
        return step_of(dialog, made, typed, rewrite, "the-other-one", other)
    preposition = _preposition(one, phrase)
    if preposition and rng.random() < 0.6:
        typed = rng.choice(_WITH_PREPOSITION).replace("{x}", f"{preposition} {other.text}")
    else:
        typed = rng.choice(_INSTEAD).replace("{x}", other.text)
    return step_of(dialog, made, typed, rewrite, "instead", other)


def _as_one(phrase: Phrase, other: Phrase) -> str:
    """ "the disabled one" for "the disabled child" beside another child; "" where that says nothing."""
    words = other.text.split()
    if (
        other.head != phrase.head
        or other.plural != phrase.plural
        or not other.long
        or " of " in other.text
        or other.named
    ):
        return ""
    if words[0].lower() not in {"a", "an", "the", "my"} and not other.plural:
        return ""
    return " ".join((*words[:-1], "ones" if other.plural else "one"))


def correction(dialog: Dialog) -> Step | None:
    """ "no, I meant …": the last question again about the right thing."""
    swap = _swap(dialog)
    if swap is None:
        return None
    _, phrase, other, made = swap
    template = dialog.random.choice(
        (
            "no, I meant {x}",
            "sorry, I mean {x}",
            "I meant {x}, not {y}",
            "not {y}, {x}",
            "oh wait, {x} I mean",
            "no, {x}",
            "I was asking about {x}",
            "that's not it, I mean {x}",
            "{x}, sorry",
        )
    )
    typed = template.replace("{x}", other.text).replace("{y}", phrase.text)
    return step_of(dialog, made, typed, rendered(made.parts), "correction", other)


def _preposition(one: Question, phrase: Phrase) -> str:
    """The word before the phrase where it is a preposition."""
    for place, part in enumerate(one.parts):
        if isinstance(part, Optional) and any(
            isinstance(inner, Ref) and inner.phrase.key == phrase.key for inner in part.parts
        ):
            return str(part.parts[0]).strip()
        if isinstance(part, Ref) and part.phrase.key == phrase.key and place:
            before = one.parts[place - 1]
            last = before.split()[-1].lower() if isinstance(before, str) and before.split() else ""
            return (
                last
                if last
                in {"for", "of", "in", "at", "on", "with", "from", "under", "to", "about", "by", "without", "after"}
                else ""
            )
    return ""


def manner(dialog: Dialog) -> Step | None:
    """The last question another way: "and by mail?"."""
    one = dialog.asked
    if one is None or not one.action or one.kind not in {"yes_no", "how"} or dialog.rewrite[-1:] != "?":
        return None
    rng = dialog.random
    way = rng.choice(_MANNERS)
    base = dialog.rewrite[:-1]
    old = next((other for other in _MANNERS if base.endswith(f" {other}")), "")
    if old:
        base = base[: -len(old) - 1]
    if way == old or (
        one.rule == "action-template" and not base.startswith(("Can I", "How do I", "How can I", "Do I have to"))
    ):
        return None
    typed = rng.choice(
        (
            "and {x}?",
            "what about {x}?",
            "{x}?",
            "or {x}?",
            "also {x}?",
            "can I do that {x}?",
            "{x} too?",
            "is it possible {x}?",
            "does it work {x}?",
        )
    ).replace("{x}", way)
    if typed.startswith(("can I do", "is it possible", "does it work")):
        rewrite = f"Can I {one.action} {way}?" if not one.action.endswith(f" {way}") else ""
    else:
        rewrite = f"{base} {way}?"
    if not rewrite or not dialog.new(rewrite):
        return None
    return Step(
        typed,
        rewrite,
        (one.rule, "manner"),
        one,
        dialog.sentence_about(one.phrases[0].key) if one.phrases else None,
        dialog.about,
    )


def circumstances(dialog: Dialog) -> Step | None:
    """The asking person tells something of themselves, and the last question holds under that condition."""
    one = dialog.asked
    if one is None or dialog.rewrite[-1:] != "?" or " if " in dialog.rewrite or one.kind not in _CONDITIONAL:
        return None
    rng = dialog.random
    condition = _condition(dialog)
    if not condition:
        return None
    typed = rng.choice(
        (
            "what if {c}?",
            "and if {c}?",
            "{c}.",
            "but {c}",
            "{c}, does that change anything?",
            "even if {c}?",
            "does it matter that {c}?",
            "{c} though",
            "also if {c}?",
            "what about when {c}?",
            "{c}",
            "{c}, is that a problem?",
        )
    ).replace("{c}", condition)
    rewrite = f"{dialog.rewrite[:-1]} if {condition}?"
    made = Question((rewrite,), one.kind, one.rule, -1, one.action, one.phrases)
    return step_of(dialog, made, typed, rewrite, "circumstances", dialog.about)


def told_first(dialog: Dialog) -> Step | None:
    """Circumstances and question in one message: "I am self-employed. Who do I contact?"."""
    rng = dialog.random
    condition = _condition(dialog)
    base = same_topic(dialog) if rng.random() < 0.6 else shift(dialog)
    if (
        not condition
        or base is None
        or base.rewrite[-1:] != "?"
        or base.asked is None
        or base.asked.kind not in _CONDITIONAL
    ):
        return None
    if " if " in base.rewrite or " when " in base.rewrite:
        return None
    said = condition[:1].upper() + condition[1:]
    joint = rng.choice((". ", ". ", ", ", " - ", ". So "))
    typed = f"{said}{joint}{base.question if joint == '. ' else small(base.question)}"
    return Step(
        typed, f"{base.rewrite[:-1]} if {condition}?", (*base.rules, "told-first"), None, base.answer, base.about
    )


def _condition(dialog: Dialog) -> str:
    """Something the asking person may say of themselves: from an "if" of the document, or about one of its things."""
    rng = dialog.random
    if dialog.material.conditions and rng.random() < 0.6:
        return rng.choice(dialog.material.conditions)
    phrase = rng.choice(dialog.material.phrases)
    sayings = _SAYINGS.get(phrase.kind, ())
    if not sayings or (phrase.kind == "person" and (phrase.plural or not phrase.text.startswith(("a ", "an ")))):
        return ""
    return rng.choice(sayings).replace("{x}", phrase.text)


_CONDITIONAL = frozenset({"yes_no", "how", "what", "when", "who", "where", "how_much", "how_long"})
_SAYINGS: dict[str, tuple[str, ...]] = {
    "form": (
        "I lost {x}",
        "I don't have {x}",
        "I already have {x}",
        "I already sent {x}",
        "I never got {x}",
        "I forgot {x}",
    ),
    "benefit": (
        "I already get {x}",
        "I don't have {x}",
        "I want to keep {x}",
        "I was denied {x}",
        "I am still waiting for {x}",
    ),
    "office": ("I already called {x}", "I can't reach {x}", "I work for {x}", "I never heard from {x}"),
    "person": ("I am {x}", "I am not {x}", "I live with {x}"),
    "software": (
        "I use {x}",
        "I am using {x}",
        "I don't use {x}",
        "I already installed {x}",
        "I only have {x}",
        "I can't change {x}",
    ),
    "setting": ("I already set {x}", "I can't change {x}", "I left out {x}"),
    "money": ("I already paid {x}", "I can't pay {x}"),
    "period": ("I missed {x}", "I want to wait for {x}"),
    "process": ("I already started {x}", "I am in the middle of {x}", "I want to stop {x}"),
}


def compared(dialog: Dialog) -> Step | None:
    """Two things set side by side: "what's the difference?", "how is it different from …?"."""
    rng = dialog.random
    first = dialog.about
    if first is None:
        return None
    pool = [
        phrase
        for phrase in (dialog.answer.phrases if dialog.answer else ())
        if phrase.key != first.key and phrase.kind == first.kind
    ]
    if pool:
        second = rng.choice(pool)
        typed, rewrite = rng.choice(
            (
                ("What is the difference?", "What is the difference between {x} and {y}?"),
                ("What's the difference between them?", "What is the difference between {x} and {y}?"),
                ("How do they differ?", "How do {x} and {y} differ?"),
                ("Which one is better?", "Which is better, {x} or {y}?"),
                ("Do I need both?", "Do I need both {x} and {y}?"),
                ("Are they the same?", "Are {x} and {y} the same?"),
                ("Can I have both at the same time?", "Can I have both {x} and {y} at the same time?"),
                ("Which of the two do I need?", "Which of {x} and {y} do I need?"),
            )
        )
    else:
        other = _others_like(dialog, first)
        if other is None:
            return None
        second = other
        typed, rewrite = rng.choice(
            (
                (
                    f"How {'are' if first.plural else 'is'} {pronoun(dialog, first)} different from {{y}}?",
                    f"How {'are' if first.plural else 'is'} {{x}} different from {{y}}?",
                ),
                (
                    f"{'Are' if first.plural else 'Is'} {pronoun(dialog, first)} the same as {{y}}?",
                    f"{'Are' if first.plural else 'Is'} {{x}} the same as {{y}}?",
                ),
                ("What's the difference to {y}?", "What is the difference between {x} and {y}?"),
                (
                    f"Can I use {'them' if first.plural else 'it'} together with {{y}}?",
                    "Can I use {x} together with {y}?",
                ),
                (
                    f"How {'do' if first.plural else 'does'} {pronoun(dialog, first)} compare to {{y}}?",
                    f"How {'do' if first.plural else 'does'} {{x}} compare to {{y}}?",
                ),
                (
                    f"{'Are' if first.plural else 'Is'} {pronoun(dialog, first)} better than {{y}}?",
                    f"{'Are' if first.plural else 'Is'} {{x}} better than {{y}}?",
                ),
                ("or should I use {y}?", "Should I use {x} or {y}?"),
            )
        )
    typed = typed.replace("{y}", second.text)
    rewrite = rewrite.replace("{x}", first.text).replace("{y}", second.text)
    if not dialog.new(rewrite):
        return None
    one = Question((rewrite,), "what", "comparison", -1, "", (first, second))
    return Step(typed, rewrite, ("comparison", "compared"), one, dialog.sentence_about(second.key), second)
