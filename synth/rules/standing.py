"""Questions that stand alone: a change of topic, a name said again, another document, a few keywords, thanks.

Each function is a move of the asking person; its name, with dashes, is the rule's name in the rows.
"""

from __future__ import annotations

from synth.rules.dialog import Dialog, Step
from synth.rules.phrases import Phrase
from synth.rules.questions import Question, rendered
from synth.rules.templates import ACTIONS, ANY, BY_KIND, of_action, of_phrase


def question_about(dialog: Dialog, phrase: Phrase) -> Question | None:
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
    return of_phrase(template, phrase)


def step_of(dialog: Dialog, one: Question, typed: str, rewrite: str, rule: str, about: Phrase | None) -> Step | None:
    if not dialog.new(rewrite):
        return None
    answer = dialog.sentence(one.answer)
    if answer is None and about is not None:
        answer = dialog.sentence_about(about.key)
    return Step(typed, rewrite, (one.rule, rule), one, answer, about)


def topic_of(one: Question) -> Phrase | None:
    """What a question is about: its first phrase."""
    return one.phrases[0] if one.phrases else None


def shift(dialog: Dialog) -> Step | None:
    """Another question of the same document, all named."""
    rng = dialog.random
    if dialog.material.questions and rng.random() < 0.72:
        one = rng.choice(dialog.material.questions)
    else:
        chosen = question_about(dialog, rng.choice(dialog.material.phrases))
        if chosen is None:
            return None
        one = chosen
    text = rendered(one.parts)
    return step_of(dialog, one, text, text, "shift", topic_of(one))


def named_again(dialog: Dialog) -> Step | None:
    """A question about what was just spoken of, which names it nevertheless."""
    known = [phrase for place, phrase in dialog.mentioned.values() if place > len(dialog.turns) - 4]
    if not known:
        return None
    phrase = dialog.random.choice(known)
    one = question_about(dialog, phrase)
    if one is None:
        return None
    text = rendered(one.parts)
    return step_of(dialog, one, text, text, "named-again", phrase)


def act(dialog: Dialog) -> Step | None:
    """A question about an action, all named."""
    if not dialog.material.actions:
        return None
    action = dialog.random.choice(dialog.material.actions)
    one = of_action(dialog.random.choice(ACTIONS), action)
    text = rendered(one.parts)
    about = topic_of(one)
    return step_of(dialog, one, text, text, "act", about)


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
    ("Thanks!", "You're welcome."),
    ("Hello", "Hello! How can I help you?"),
    ("Great, thank you", "Gladly."),
    ("thanks a lot for your help", "You're welcome. Is there anything else?"),
    ("ok", "Can I help you with anything else?"),
    ("Hi there", "Hi! What would you like to know?"),
    ("perfect, thanks", "You're welcome!"),
    ("Good morning!", "Good morning! How can I help?"),
    ("ok got it", "Good. Let me know if there is more."),
    ("No, that's all. Bye!", "Goodbye!"),
    ("I see", "Is there anything else you need?"),
    ("That helps, thank you very much", "You're welcome."),
    ("hey", "Hello! What can I do for you?"),
)


def pleasantry(dialog: Dialog) -> Step | None:
    """A greeting or thanks: nothing to search for, nothing to rewrite."""
    text, reply = dialog.random.choice(_PLEASANTRIES)
    return Step(text, text, ("pleasantry",), dialog.asked, dialog.answer, dialog.about, reply)
