"""Moves of the asking person: how the next question takes up what was said.

Each move is a function of the dialog that returns a `Step`, or None where it does not fit. Its name is the rule's
name in the rows. Stand-alone moves (`STANDING`) leave the question as it is; `POINTING` ones leave something out
that the rewrite brings back from history and question alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

from synth.rules.dialog import Dialog, Step
from synth.rules.phrases import Phrase
from synth.rules.questions import Optional, Question, Ref, refs, rendered, replaced
from synth.rules.templates import ACTIONS, ANY, BY_KIND, droppable, of_action, of_phrase

Move: TypeAlias = Callable[[Dialog], Step | None]

_MANNERS = (
    "online", "by mail", "by phone", "in person", "by email", "by fax", "on weekends", "for free", "from abroad", "on my phone",
    "without an account", "in advance", "later", "at home", "from my computer", "on Windows", "on Linux", "in the browser",
    "from the command line", "with a script", "automatically", "at the office", "with a credit card", "in another state",
)  # fmt: skip
_ORDINALS = ("first", "second", "third", "fourth", "fifth")


def _question_about(dialog: Dialog, phrase: Phrase) -> Question | None:
    """A question that names the phrase: one a sentence answers, or a template's."""
    rng = dialog.random
    places = dialog.material.by_phrase.get(phrase.key, ())
    if places and rng.random() < 0.6:
        for _ in range(3):
            one = dialog.material.questions[rng.choice(places)]
            if dialog.new(rendered(one.parts)):
                return one
    own = BY_KIND[phrase.kind]
    template = rng.choice(own) if rng.random() < (0.75 if phrase.kind else 0.3) else rng.choice(ANY)
    if phrase.person and not phrase.plural and "do {s}" in template:
        return None
    if phrase.person and not phrase.plural:
        return None
    return of_phrase(template, phrase)


def _step(dialog: Dialog, one: Question, typed: str, rewrite: str, rule: str, about: Phrase | None) -> Step | None:
    if not dialog.new(rewrite):
        return None
    answer = dialog.sentence(one.answer)
    if answer is None and about is not None:
        answer = dialog.sentence_about(about.key)
    return Step(typed, rewrite, (one.rule, rule), one, answer, about)


def _topic(one: Question) -> Phrase | None:
    """What a question is about: its first phrase."""
    return one.phrases[0] if one.phrases else None


# ---- questions that stand alone


def shift(dialog: Dialog) -> Step | None:
    """Another question of the same document, all named."""
    rng = dialog.random
    if dialog.material.questions and rng.random() < 0.72:
        one = rng.choice(dialog.material.questions)
    else:
        chosen = _question_about(dialog, rng.choice(dialog.material.phrases))
        if chosen is None:
            return None
        one = chosen
    text = rendered(one.parts)
    return _step(dialog, one, text, text, "shift", _topic(one))


def named_again(dialog: Dialog) -> Step | None:
    """A question about what was just spoken of, which names it nevertheless."""
    known = [phrase for place, phrase in dialog.mentioned.values() if place > len(dialog.turns) - 4]
    if not known:
        return None
    phrase = dialog.random.choice(known)
    one = _question_about(dialog, phrase)
    if one is None:
        return None
    text = rendered(one.parts)
    return _step(dialog, one, text, text, "named-again", phrase)


def act(dialog: Dialog) -> Step | None:
    """A question about an action, all named."""
    if not dialog.material.actions:
        return None
    action = dialog.random.choice(dialog.material.actions)
    one = of_action(dialog.random.choice(ACTIONS), action)
    text = rendered(one.parts)
    about = _topic(one)
    return _step(dialog, one, text, text, "act", about)


def elsewhere(dialog: Dialog) -> Step | None:
    """A question about another document; the conversation goes on there."""
    if not dialog.others:
        return None
    other = dialog.random.choice(dialog.others)
    if other is dialog.material:
        return None
    before = dialog.material
    dialog.material = other
    step = shift(dialog) or act(dialog)
    if step is None:
        dialog.material = before
        return None
    return Step(step.question, step.rewrite, (*step.rules, "elsewhere"), step.asked, step.answer, step.about)


def keywords(dialog: Dialog) -> Step | None:
    """A search in two or three words, which stands alone."""
    rng = dialog.random
    phrase = rng.choice(dialog.material.phrases)
    facet = rng.choice(
        (
            "",
            "requirements",
            "cost",
            "eligibility",
            "how to",
            "example",
            "deadline",
            "definition",
            "phone number",
            "limits",
            "options",
            "error",
            "help",
        )
    )
    text = f"{facet} {phrase.core}" if facet == "how to" else f"{phrase.core} {facet}".strip()
    if len(text.split()) < 2 or not dialog.new(text):
        return None
    return Step(
        text, text, ("keywords",), of_phrase("What {is} {s}?", phrase), dialog.sentence_about(phrase.key), phrase
    )


_PLEASANTRIES = (
    ("Thanks!", "You're welcome."), ("Hello", "Hello! How can I help you?"), ("Great, thank you", "Gladly."),
    ("thanks a lot for your help", "You're welcome. Is there anything else?"), ("ok", "Can I help you with anything else?"),
    ("Hi there", "Hi! What would you like to know?"), ("perfect, thanks", "You're welcome!"), ("Good morning!", "Good morning! How can I help?"),
    ("ok got it", "Good. Let me know if there is more."), ("No, that's all. Bye!", "Goodbye!"), ("I see", "Is there anything else you need?"),
    ("That helps, thank you very much", "You're welcome."), ("hey", "Hello! What can I do for you?"),
)  # fmt: skip


def pleasantry(dialog: Dialog) -> Step | None:
    """A greeting or thanks: nothing to search for, nothing to rewrite."""
    text, reply = dialog.random.choice(_PLEASANTRIES)
    return Step(text, text, ("pleasantry",), dialog.asked, dialog.answer, dialog.about, reply)


# ---- questions that point back


def _pronoun(phrase: Phrase) -> str:
    return "they" if phrase.plural else "it"


def _description(dialog: Dialog, phrase: Phrase) -> str:
    """A shorter name: "that form", "the program"."""
    rng = dialog.random
    noun = phrase.head if not phrase.plural else _plural_head(phrase)
    if phrase.named and not phrase.kind:
        return _pronoun(phrase)
    this = rng.choice(("these", "those", "the")) if phrase.plural else rng.choice(("this", "that", "the", "the"))
    return f"{this} {noun}"


def _plural_head(phrase: Phrase) -> str:
    words = phrase.core.split(" of ")[0].split()
    return words[-1] if words else phrase.core


def _pointed(dialog: Dialog, one: Question, phrase: Phrase, *, far: bool = False) -> tuple[str, str] | None:
    """The question with the phrase pointed at instead of named, and how; None where it cannot be."""
    rng = dialog.random
    optional = any(
        isinstance(part, Optional)
        and any(isinstance(inner, Ref) and inner.phrase.key == phrase.key for inner in part.parts)
        for part in one.parts
    )
    if optional and rng.random() < 0.6:
        bare = rendered(one.parts, drop=frozenset({phrase.key}))
        if len(bare.split()) >= 3:
            return bare, "dropped"
    describable = bool(phrase.kind) or phrase.long
    if describable and (far or phrase.person or rng.random() < 0.38):
        words, how = _description(dialog, phrase), "description"
        if words.split(" ", 1)[-1].lower() == phrase.text.lower() or words.lower() == phrase.text.lower():
            return None
    elif phrase.person and not phrase.plural:
        return None
    else:
        words, how = _pronoun(phrase), "pronoun"
        if not phrase.plural and rng.random() < 0.12:
            words = "that"
    if _belongs_on(one, phrase):
        return None
    return rendered(one.parts, {phrase.key: words}), how


def _belongs_on(one: Question, phrase: Phrase) -> bool:
    """Whether words that belong to the phrase follow it, so that nothing can stand in its place alone."""
    for part, after in pairwise(one.parts):
        if isinstance(part, Ref) and part.phrase.key == phrase.key:
            text = after if isinstance(after, str) else after.parts[0] if isinstance(after, Optional) else ""
            if isinstance(text, str) and text.lstrip().startswith(("of ", "that ", "who ", "which ", "-", "(", "'")):
                return True
    return False


def _follow(dialog: Dialog, phrase: Phrase, rule: str, *, far: bool = False) -> Step | None:
    if dialog.random.random() < 0.25 and not far:
        template = dialog.random.choice(droppable(phrase.kind))
        one: Question | None = of_phrase(template, phrase)
    else:
        one = _question_about(dialog, phrase)
    if one is None:
        return None
    pointed = _pointed(dialog, one, phrase, far=far)
    if pointed is None:
        return None
    typed, how = pointed
    second = next(
        (other for other in one.phrases if other.key != phrase.key and other.key in dialog.mentioned and other.kind),
        None,
    )
    if second is not None and how == "pronoun" and dialog.random.random() < 0.4:
        forms = {phrase.key: _pronoun(phrase), second.key: _description(dialog, second)}
        typed, how = rendered(one.parts, forms), "two-at-once"
    rewrite = rendered(one.parts)
    if typed == rewrite:
        return None
    step = _step(dialog, one, typed, rewrite, rule, phrase)
    return Step(step.question, step.rewrite, (*step.rules, how), step.asked, step.answer, step.about) if step else None


def same_topic(dialog: Dialog) -> Step | None:
    """More about what the last question was about."""
    phrase = dialog.about
    if phrase is None:
        return None
    return _follow(dialog, phrase, "same-topic")


def from_answer(dialog: Dialog) -> Step | None:
    """About something that the assistant brought up."""
    if dialog.answer is None or dialog.asked is None:
        return None
    known = dialog.asked.keys
    fresh = [phrase for phrase in dialog.answer.phrases if phrase.key not in known]
    if not fresh:
        return None
    phrase = dialog.random.choice(fresh)
    alone = len(fresh) == 1
    return _follow(dialog, phrase, "from-answer", far=not alone)


def further_back(dialog: Dialog) -> Step | None:
    """About something from before the last exchange, by a description or named while going back to it."""
    old = [phrase for place, phrase in dialog.mentioned.values() if place <= len(dialog.turns) - 2]
    old = [phrase for phrase in old if dialog.asked is None or phrase.key not in dialog.asked.keys]
    if not old:
        return None
    phrase = dialog.random.choice(old)
    if dialog.random.random() < 0.5:
        one = _question_about(dialog, phrase)
        if one is None or phrase.person:
            return None
        opener = dialog.random.choice(
            ("going back to", "back to", "about", "once more about", "coming back to", "regarding")
        )
        body = rendered(one.parts, {phrase.key: _pronoun(phrase)}, frozenset({phrase.key}))
        typed = f"{opener} {phrase.text}, {body[0].lower()}{body[1:]}"
        return _step(dialog, one, typed, rendered(one.parts), "going-back", phrase)
    return _follow(dialog, phrase, "further-back", far=True)


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


def instead(dialog: Dialog) -> Step | None:
    """The last question about something else: "and for a replacement card?"."""
    one = dialog.asked
    if one is None or not one.phrases or not dialog.rewrite or rendered(one.parts) != dialog.rewrite:
        return None
    rng = dialog.random
    named = list(refs(one.parts))
    if not named:
        return None
    ref = rng.choice(named)
    other = _others_like(dialog, ref.phrase)
    if other is None:
        return None
    changed = replaced(one.parts, ref.phrase.key, other)
    preposition = _preposition(one, ref.phrase)
    if preposition and rng.random() < 0.6:
        typed = rng.choice(_WITH_PREPOSITION).replace("{x}", f"{preposition} {other.text}")
    else:
        typed = rng.choice(_INSTEAD).replace("{x}", other.text)
    rewrite = rendered(changed)
    made = Question(changed, one.kind, one.rule, -1, "", tuple(found.phrase for found in refs(changed)))
    return _step(dialog, made, typed, rewrite, "instead", other)


def correction(dialog: Dialog) -> Step | None:
    """ "no, I meant …": the last question again about the right thing."""
    one = dialog.asked
    if one is None or not one.phrases or rendered(one.parts) != dialog.rewrite:
        return None
    rng = dialog.random
    named = list(refs(one.parts))
    if not named:
        return None
    ref = rng.choice(named)
    other = _others_like(dialog, ref.phrase)
    if other is None:
        return None
    template = rng.choice(
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
    changed = replaced(one.parts, ref.phrase.key, other)
    typed = template.replace("{x}", other.text).replace("{y}", ref.phrase.text)
    made = Question(changed, one.kind, one.rule, -1, "", tuple(found.phrase for found in refs(changed)))
    return _step(dialog, made, typed, rendered(changed), "correction", other)


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


def do_that(dialog: Dialog) -> Step | None:
    """A question about the action spoken of, as "do that": "how long does that take?"."""
    rng = dialog.random
    action = dialog.action
    one = dialog.asked
    if action is None:
        return None
    template = rng.choice(ACTIONS)
    made = of_action(template, action)
    before, after = template.split("{a}")
    if before.endswith(" to ") and before.startswith(("How long does it take", "How much does it cost")):
        typed = {"How long": "How long does that take?", "How much": "How much does that cost?"}[
            " ".join(before.split()[:2])
        ]
    elif before.startswith(("Is it ", "Is there ")) and rng.random() < 0.6:
        typed = before.replace(" to ", "?", 1) if before.startswith("Is it") else f"{before[:-4]} for that?"
    elif (
        rng.random() < 0.15
        and before in {"How do I ", "Why should I ", "When should I ", "Where do I ", "Who can ", "How can I "}
        and not after.strip(" ?")
    ):
        typed = f"{before.split()[0]}?"
    else:
        typed = f"{before}{rng.choice(('do that', 'do that', 'do this', 'do it', 'do so'))}{after}"
    rewrite = rendered(made.parts)
    about = made.phrases[0] if made.phrases else (one.phrases[0] if one and one.phrases else None)
    return _step(dialog, made, typed.strip(), rewrite, "do-that", about)


_BARE = {
    "Why": ("why?", "why is that?", "how come?", "and why?", "what's the reason for that?", "why so?"),
    "How": ("how?", "how so?", "and how?", "how does that work?"),
    "When": ("when?", "and when?", "since when?"),
    "Where": ("where?", "and where?"),
    "How often": ("how often?",),
    "For how long": ("for how long?", "how long?"),
}


def bare(dialog: Dialog) -> Step | None:
    """One interrogative about what the assistant said: "why?"."""
    said = dialog.answer
    if said is None or not said.inverted or not isinstance(said.inverted[0], str):
        return None
    rng = dialog.random
    opener = rng.choice(("Why", "Why", "Why", "How", "When", "Where", "How often", "For how long"))
    first = said.inverted[0]
    if opener in {"How often", "For how long"} and first.strip() in {"Is", "Are", "Am"}:
        return None
    negation = " not" if said.negated and opener == "Why" else ""
    if negation:
        return None
    parts = (f"{opener} {first[0].lower()}{first[1:]}", *said.inverted[1:], "?")
    made = Question(parts, "why", "clause-why", -1, "", tuple(ref.phrase for ref in refs(parts)))
    return _step(dialog, made, rng.choice(_BARE[opener]), rendered(parts), "bare", dialog.about)


def circumstances(dialog: Dialog) -> Step | None:
    """The asking person tells something of themselves, and the last question holds under that condition."""
    one = dialog.asked
    if (
        one is None
        or not dialog.material.conditions
        or dialog.rewrite[-1:] != "?"
        or " if " in dialog.rewrite
        or one.kind not in {"yes_no", "how", "what", "when"}
    ):
        return None
    rng = dialog.random
    condition = rng.choice(dialog.material.conditions)
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
        )
    ).replace("{c}", condition)
    rewrite = f"{dialog.rewrite[:-1]} if {condition}?"
    made = Question((rewrite,), one.kind, one.rule, -1, one.action, one.phrases)
    return _step(dialog, made, typed, rewrite, "circumstances", dialog.about)


def told_first(dialog: Dialog) -> Step | None:
    """Circumstances and question in one message: "I'm self-employed. Who do I contact?"."""
    if not dialog.material.conditions:
        return None
    rng = dialog.random
    base = same_topic(dialog) if rng.random() < 0.6 else shift(dialog)
    if base is None or base.rewrite[-1:] != "?" or " if " in base.rewrite or " when " in base.rewrite:
        return None
    condition = rng.choice(dialog.material.conditions)
    condition_said = condition[:1].upper() + condition[1:]
    typed = f"{condition_said}{rng.choice(('. ', '. ', ', ', ' - ', '. So '))}{base.question}"
    return Step(
        typed, f"{base.rewrite[:-1]} if {condition}?", (*base.rules, "told-first"), None, base.answer, base.about
    )


def of_list(dialog: Dialog) -> Step | None:
    """One of the things the assistant listed: "what is the second one?"."""
    said = dialog.answer
    if said is None or len(said.listed) < 2:
        return None
    rng = dialog.random
    items = said.listed
    place = rng.randrange(len(items))
    phrase = items[place]
    if phrase.person and not phrase.plural:
        return None
    if place == len(items) - 1 and rng.random() < 0.6:
        name = "the latter" if len(items) == 2 else "the last one"
    elif len(items) == 2 and rng.random() < 0.3:
        name = "the former"
    else:
        name = f"the {_ORDINALS[place]} one"
    template = rng.choice((*BY_KIND[phrase.kind], *ANY[:12]))
    one = of_phrase(template.replace("{is}", "is").replace("{does}", "does").replace("{has}", "has"), phrase)
    typed = rendered(one.parts, {phrase.key: name})
    proper = of_phrase(template, phrase)
    return _step(dialog, proper, typed, rendered(proper.parts), "of-list", phrase)


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
                    f"How {'are' if first.plural else 'is'} {_pronoun(first)} different from {{y}}?",
                    f"How {'are' if first.plural else 'is'} {{x}} different from {{y}}?",
                ),
                (
                    f"{'Are' if first.plural else 'Is'} {_pronoun(first)} the same as {{y}}?",
                    f"{'Are' if first.plural else 'Is'} {{x}} the same as {{y}}?",
                ),
                ("What's the difference to {y}?", "What is the difference between {x} and {y}?"),
                (
                    f"Can I use {'them' if first.plural else 'it'} together with {{y}}?",
                    "Can I use {x} together with {y}?",
                ),
                (
                    f"How {'do' if first.plural else 'does'} {_pronoun(first)} compare to {{y}}?",
                    f"How {'do' if first.plural else 'does'} {{x}} compare to {{y}}?",
                ),
                (
                    f"{'Are' if first.plural else 'Is'} {_pronoun(first)} better than {{y}}?",
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


_MORE = (
    ("Tell me more.", "Tell me more about {x}."), ("can you explain that?", "Can you explain {x}?"), ("more details please", "Give me more details about {x}."),
    ("what does that mean?", "What does {x} mean?"), ("for example?", "What is an example of {x}?"), ("anything else?", "Is there anything else I should know about {x}?"),
    ("what else?", "What else should I know about {x}?"), ("where can I read about that", "Where can I read about {x}?"), ("why does it matter?", "Why does {x} matter?"),
    ("who do I ask about that", "Who do I ask about {x}?"), ("any exceptions?", "Are there any exceptions for {x}?"), ("is there more?", "Is there more to know about {x}?"),
    ("go on", "Tell me more about {x}."), ("I don't understand", "Can you explain {x}?"), ("say that again?", "Can you explain {x}?"), ("such as?", "What are examples of {x}?"),
    ("what do you mean by that?", "What does {x} mean?"), ("and then?", "What happens after {x}?"), ("do you have a link", "Is there a link about {x}?"),
)  # fmt: skip


def more(dialog: Dialog) -> Step | None:
    """Asking for more without naming anything: "anything else?"."""
    phrase = dialog.about
    if phrase is None:
        return None
    typed, rewrite = dialog.random.choice(_MORE)
    if phrase.plural:
        rewrite = rewrite.replace("does {x} ", "do {x} ")
    rewrite = rewrite.replace("{x}", phrase.text)
    if not dialog.new(rewrite):
        return None
    one = of_phrase("What {is} {s}?", phrase)
    return Step(typed, rewrite, ("more",), one, dialog.sentence_about(phrase.key), phrase)


STANDING: dict[str, tuple[Move, float]] = {
    "shift": (shift, 46), "named-again": (named_again, 22), "act": (act, 14), "elsewhere": (elsewhere, 12),
    "keywords": (keywords, 3), "pleasantry": (pleasantry, 3),
}  # fmt: skip
"""Moves whose question is its own rewrite, with their share among these."""

POINTING: dict[str, tuple[Move, float]] = {
    "same-topic": (same_topic, 26), "from-answer": (from_answer, 17), "further-back": (further_back, 8), "instead": (instead, 13),
    "manner": (manner, 4), "do-that": (do_that, 8), "bare": (bare, 4), "circumstances": (circumstances, 5), "told-first": (told_first, 3),
    "of-list": (of_list, 3), "compared": (compared, 4), "correction": (correction, 2), "more": (more, 3),
}  # fmt: skip
"""Moves whose rewrite says what the question leaves to the conversation, with their share among these."""
