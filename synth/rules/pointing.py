"""Questions that point back: pronouns, descriptions, words left out, "do that", "why?", "the second one".

Each function is a move of the asking person; its name, with dashes, is the rule's name in the rows. What a move
leaves out stands in the history, so that a rewrite can copy it from there. Putting one thing in another's place is
`synth.rules.swapping`.
"""

from __future__ import annotations

from itertools import pairwise

from synth.rules.dialog import Dialog, Step
from synth.rules.phrases import Phrase
from synth.rules.questions import Optional, Question, Ref, refs, rendered
from synth.rules.standing import question_about, step_of
from synth.rules.templates import ACTIONS, ANY, BY_KIND, droppable, of_action, of_phrase

_ORDINALS = ("first", "second", "third", "fourth", "fifth")


def pronoun(dialog: Dialog, phrase: Phrase) -> str:
    """ "it", "they", or for a person "he" or "she", one and the same throughout a conversation."""
    if phrase.plural:
        return "they"
    return dialog.gender if phrase.person else "it"


def description(dialog: Dialog, phrase: Phrase) -> str:
    """A shorter name: "that form", "the program"."""
    rng = dialog.random
    noun = phrase.head if not phrase.plural else _plural_head(phrase)
    if phrase.named and not phrase.kind:
        return pronoun(dialog, phrase)
    this = rng.choice(("these", "those", "the")) if phrase.plural else rng.choice(("this", "that", "the", "the"))
    return f"{this} {noun}"


def _plural_head(phrase: Phrase) -> str:
    words = phrase.core.split(" of ")[0].split()
    return words[-1] if words else phrase.core


def _pointed(dialog: Dialog, one: Question, phrase: Phrase, *, far: bool = False) -> tuple[str, str] | None:
    """The question with the phrase pointed at instead of named, and how; None where it cannot be."""
    rng = dialog.random
    if _optional(one, phrase) and rng.random() < 0.6:
        bare = rendered(one.parts, drop=frozenset({phrase.key}))
        if len(bare.split()) >= 3:
            return bare, "dropped"
    describable = bool(phrase.kind) or phrase.long
    if describable and (far or rng.random() < 0.38):
        words, how = description(dialog, phrase), "description"
        if words.split(" ", 1)[-1].lower() == phrase.text.lower() or words.lower() == phrase.text.lower():
            return None
    else:
        words, how = pronoun(dialog, phrase), "pronoun"
        if words == "it" and rng.random() < 0.12:
            words = "that"
    if _belongs_on(one, phrase):
        return None
    return rendered(one.parts, {phrase.key: words}), how


def _optional(one: Question, phrase: Phrase) -> bool:
    """Whether the phrase stands in a stretch that may be left out."""
    return any(
        isinstance(part, Optional)
        and any(isinstance(inner, Ref) and inner.phrase.key == phrase.key for inner in part.parts)
        for part in one.parts
    )


def _belongs_on(one: Question, phrase: Phrase) -> bool:
    """Whether words that belong to the phrase follow it, so that nothing can stand in its place alone."""
    for part, after in pairwise(one.parts):
        if isinstance(part, Ref) and part.phrase.key == phrase.key:
            text = after if isinstance(after, str) else after.parts[0] if isinstance(after, Optional) else ""
            if not isinstance(text, str):
                continue
            word = text.split(" ", 2)[1] if text.startswith(" ") and len(text) > 1 else text
            if word in {"of", "that", "who", "which", "whose"} or word.startswith(("-", "(", "'")):
                return True
            if part.case == "object" and word.endswith(("ed", "ing")):
                return True
    return False


def _follow(dialog: Dialog, phrase: Phrase, rule: str, *, far: bool = False) -> Step | None:
    if dialog.random.random() < 0.25 and not far:
        template = dialog.random.choice(droppable(phrase.kind))
        one: Question | None = of_phrase(template, phrase)
    else:
        one = question_about(dialog, phrase)
    if one is None:
        return None
    pointed = _pointed(dialog, one, phrase, far=far)
    if pointed is None:
        return None
    typed, how = pointed
    if how != "dropped" and dialog.random.random() < 0.7:
        second = next(
            (other for other in one.phrases if other.key != phrase.key and other.key in dialog.mentioned), None
        )
        if second is not None:
            typed, how = _both(dialog, one, phrase, second), "two-at-once"
    rewrite = rendered(one.parts)
    if typed == rewrite:
        return None
    step = step_of(dialog, one, typed, rewrite, rule, phrase)
    return Step(step.question, step.rewrite, (*step.rules, how), step.asked, step.answer, step.about) if step else None


def _both(dialog: Dialog, one: Question, phrase: Phrase, second: Phrase) -> str:
    """The question with two phrases pointed at: the second described, left out, or left as it is."""
    forms = {phrase.key: pronoun(dialog, phrase)}
    if _optional(one, second) and dialog.random.random() < 0.6:
        return rendered(one.parts, forms, frozenset({second.key}))
    if (second.kind or second.long) and not _belongs_on(one, second):
        forms[second.key] = description(dialog, second)
    return rendered(one.parts, forms)


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
        one = question_about(dialog, phrase)
        if one is None:
            return None
        opener = dialog.random.choice(
            ("going back to", "back to", "about", "once more about", "coming back to", "regarding")
        )
        body = rendered(one.parts, {phrase.key: pronoun(dialog, phrase)}, frozenset({phrase.key}))
        typed = f"{opener} {phrase.text}, {body[0].lower()}{body[1:]}"
        return step_of(dialog, one, typed, rendered(one.parts), "going-back", phrase)
    return _follow(dialog, phrase, "further-back", far=True)


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
    return step_of(dialog, made, typed.strip(), rewrite, "do-that", about)


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
    return step_of(dialog, made, rng.choice(_BARE[opener]), rendered(parts), "bare", dialog.about)


def of_list(dialog: Dialog) -> Step | None:
    """One of the things the assistant listed: "what is the second one?"."""
    said = dialog.answer
    if said is None or len(said.listed) < 2:
        return None
    rng = dialog.random
    items = said.listed
    place = rng.randrange(len(items))
    phrase = items[place]
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
    return step_of(dialog, proper, typed, rendered(proper.parts), "of-list", phrase)


_MORE = (
    ("Tell me more.", "Tell me more about {x}."),
    ("can you explain that?", "Can you explain {x}?"),
    ("more details please", "Give me more details about {x}."),
    ("what does that mean?", "What does {x} mean?"),
    ("for example?", "What is an example of {x}?"),
    ("anything else?", "Is there anything else I should know about {x}?"),
    ("what else?", "What else should I know about {x}?"),
    ("where can I read about that", "Where can I read about {x}?"),
    ("why does it matter?", "Why does {x} matter?"),
    ("who do I ask about that", "Who do I ask about {x}?"),
    ("any exceptions?", "Are there any exceptions for {x}?"),
    ("is there more?", "Is there more to know about {x}?"),
    ("go on", "Tell me more about {x}."),
    ("I don't understand", "Can you explain {x}?"),
    ("say that again?", "Can you explain {x}?"),
    ("such as?", "What are examples of {x}?"),
    ("what do you mean by that?", "What does {x} mean?"),
    ("and then?", "What happens after {x}?"),
    ("do you have a link", "Is there a link about {x}?"),
)


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
