"""Edits that turn what a true sentence says, told apart by kind, and retellings that do not.

Each edit takes a sentence, what stands beside it (`Siblings`) and a source of chance, and returns the turned sentence,
or None where the sentence offers nothing to turn. Options, names and numbers are swapped with those of the same
section, then of the same page: small models confuse these, and a word from elsewhere would be found by its looks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import regex

from text.words import stems


@dataclass(frozen=True, slots=True)
class Siblings:
    """What can take the place of a word of a sentence: texts of its section, nearest first, then of the rest of its
    page."""

    section: Sequence[str]
    page: Sequence[str]

    def like(self, pattern: regex.Pattern[str], own: str, alike: Callable[[str], bool]) -> list[str]:
        """What the pattern finds in the section, or else on the page, and is not in the sentence `own` itself."""
        held = own.casefold()
        for texts in (self.section, self.page):
            found = dict.fromkeys(match.group() for text in texts for match in pattern.finditer(text))
            others = [one for one in found if one.casefold() not in held and alike(one)]
            if others:
                return others
        return []


Edit: TypeAlias = Callable[[str, Siblings, random.Random], str | None]

OPTION = regex.compile(r"`[^`\n]{2,60}`|(?<![\w`/-])--?[a-z][a-z0-9-]+(?![\w`])")
NAME = regex.compile(r"(?<=[\p{Ll},;:(] )\p{Lu}[\w+]*(?:[ -]\p{Lu}[\w+]+){0,3}")
NUMBER = regex.compile(r"(?<![\w.,$/#:-])\d{1,9}(?:[.,:]\d+)*(?![\w/-])(?![.,:]\d)")
_ORDINAL = regex.compile(r"\s*\d{1,3}[.)]\s")
_NUMBER_WORDS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty", "thirty"]
_COUNTS = ("once", "twice"), ("first", "second", "third"), ("single", "double"), ("half", "quarter")
_UNITS = [
    line.split()
    for line in """
        milliseconds seconds minutes hours days weeks months years
        millisecond second minute hour day week month year
        hourly daily weekly monthly yearly
        KB MB GB TB
        KiB MiB GiB TiB
        bytes kilobytes megabytes gigabytes terabytes
        bits bytes
        miles feet inches
        metres kilometres centimetres
        dollars cents percent
    """.strip().splitlines()
]
_NAMES = [
    line.split()
    for line in """
        Windows Linux macOS
        Ubuntu Debian Fedora Alpine Arch
        Docker Podman Kubernetes
        Monday Tuesday Wednesday Thursday Friday Saturday Sunday
        January February March April May June July August September October November December
        PostgreSQL MySQL SQLite MariaDB
        TCP UDP
        IPv4 IPv6
        HTTP HTTPS
        JSON YAML TOML XML CSV
        GET POST PUT DELETE PATCH
        Chrome Firefox Safari Edge
        GitHub GitLab Bitbucket
    """.strip().splitlines()
]
_OPPOSITES = """
    always/never before/after above/below enabled/disabled enable/disable enables/disables allow/prevent allows/prevents
    allowed/forbidden required/optional mandatory/optional minimum/maximum least/most increase/decrease
    increases/decreases more/less higher/lower larger/smaller greater/smaller longer/shorter faster/slower newer/older
    include/exclude includes/excludes included/excluded automatically/manually automatic/manual true/false first/last
    internal/external local/remote public/private client/server input/output upgrade/downgrade install/uninstall
    add/remove adds/removes added/removed create/delete creates/deletes created/deleted start/stop starts/stops
    open/close opens/closes read/write success/failure succeeds/fails valid/invalid possible/impossible
    supported/unsupported same/different everything/nothing up/down in/out inside/outside
    earlier/later old/new encrypted/unencrypted eligible/ineligible accept/reject approved/denied full/partial
    temporary/permanent free/paid explicitly/implicitly global/local lowercase/uppercase left/right top/bottom
    ascending/descending static/dynamic synchronous/asynchronous strongly/weakly recommended/discouraged safe/unsafe
    secure/insecure keep/delete keeps/deletes overrides/keeps ignored/used ignores/uses
"""
_PAIRS = [tuple(pair.split("/")) for pair in _OPPOSITES.split()]
_OPPOSITE: dict[str, list[str]] = {}
for _one, _other in _PAIRS:
    _OPPOSITE.setdefault(_one, []).append(_other)
    _OPPOSITE.setdefault(_other, []).append(_one)
del _OPPOSITE["in"], _OPPOSITE["out"], _OPPOSITE["up"], _OPPOSITE["down"], _OPPOSITE["used"]
_WORD = regex.compile(r"(?<![\w`/.-])\p{L}+(?![\w`/-])(?!\.\w)")

_AUXILIARY = r"is|are|was|were|can|could|will|would|should|must|may|might|has|have|had|does|do|did|need"
_DENIED = regex.compile(
    r"\b(?P<is>is|are|was|were|could|will|would|should|must|may|might|has|have|had|ca|wo)(?: not|(?:n['’]t))\b"
    r"|\b(?P<do>do|does|did)(?: not|n['’]t) (?P<verb>\p{Ll}+)|\bcannot\b|\bcan not\b|\bno longer\b|\bnever\b"
    r"|\bwithout\b|\bthere (?:is|are) no\b|\bnot\b|\bno\b(?= \p{Ll})|\bneither\b|\bunable to\b",
    regex.IGNORECASE,
)
_AFFIRMED = regex.compile(
    rf"\b(?:{_AUXILIARY})\b(?! not\b|n['’]t| only\b| no\b)(?!['’])"
    r"|(?<=\p{L} )(?:supports|uses|requires|allows|provides|creates|adds|runs|includes|sets|returns|installs|needs|works"
    r"|contains|means|accepts|reads|writes|sends|stores|keeps|removes|affects|applies|depends|prevents|ignores|changes"
    r"|replaces|overrides|starts|stops|takes|gives|gets|shows|updates|checks|generates|respects|resolves|loads|expects"
    r"|defaults|counts|covers|qualifies|pays|receives|expires|makes|enables|disables|lets|has)\b"
    r"|^(?:Use|Run|Set|Add|Create|Install|Open|Enable|Call|Pass|Make|Click|Select|Choose|Specify|Configure|Update|Include"
    r"|Remove|Check|Start|Keep|Put|Define|Send|Bring|Change|Restart|Enter)\b"
    r"|\byou (?:need|have|want|use|get|must|can|should|will)\b",
    regex.IGNORECASE,
)
_CONDITION = regex.compile(
    r"^(?:If|Unless|When|Once|As long as|Provided|Except|Only if|In case|On|For|With) [^,;:]{6,140}, (?:then )?(?P<rest>.{15,})$"
)
_CONDITIONAL = regex.compile(
    r"(?<rest>.{20,}?),? (?:if|unless|only if|provided that|as long as|except|only when|when|until|but only|in case) .{6,}$"
)
_HEDGE = regex.compile(r"\b(?:only|usually|sometimes|often|mostly|optionally|by default|at least|up to|generally)\b ?")
_YES_NO = regex.compile(r"^(?:Yes|No)\b(?=[,.;:! —–-])")
_BASE = {"has": "have", "does": "do", "goes": "go", "applies": "apply", "qualifies": "qualify"}


def number(sentence: str, siblings: Siblings, rng: random.Random) -> str | None:
    """Another number, of the same page where it has one of the same form."""
    start = _ordinal_end(sentence)
    places = [match for match in NUMBER.finditer(sentence) if match.start() >= start]
    words = [
        (match, group)
        for match in _WORD.finditer(sentence)
        for group in (_NUMBER_WORDS, *_COUNTS)
        if match.group().casefold() in group
    ]
    if not places and not words:
        return None
    if words and (not places or rng.random() < 0.25):
        match, group = rng.choice(words)
        other = rng.choice([word for word in group if word != match.group().casefold()])
        return _put(sentence, match, _cased(other, match.group()))
    match = rng.choice(places)
    own = match.group()
    form = regex.sub(r"\d+", "0", own)
    others = siblings.like(NUMBER, sentence, lambda one: regex.sub(r"\d+", "0", one) == form and len(one) <= 9)
    near = [one for one in others if abs(len(one) - len(own)) <= 1]
    other = rng.choice(near) if near and rng.random() < 0.6 else _perturbed(own, rng)
    return None if other == own or other in sentence else _put(sentence, match, other)


def _perturbed(own: str, rng: random.Random) -> str:
    digits = list(regex.finditer(r"\d+", own))
    part = rng.choice(digits)
    value = int(part.group())
    choices = [value + 1, value + 2, value * 2, value * 10, max(0, value - 1), value + rng.randint(3, 40)]
    if value >= 10:
        choices += [value // 2, value // 10, value - rng.randint(1, 9)]
    other = str(rng.choice([one for one in choices if one != value])).zfill(len(part.group()) * own.startswith("0"))
    return own[: part.start()] + other + own[part.end() :]


def unit(sentence: str, siblings: Siblings, rng: random.Random) -> str | None:
    """Another unit of time, of memory, of money or of length."""
    counted = regex.compile(
        r"(?:\d|\b(?:per|each|every|an?|one|a few|several|of|" + "|".join(_NUMBER_WORDS) + r"))[ -]?$"
    )
    places = []
    for match in _WORD.finditer(sentence):
        for group in _UNITS:
            plural = match.group().endswith("s") or group is _UNITS[2] or match.group().isupper()
            if match.group() in group and (plural or counted.search(sentence[: match.start()])):
                places.append((match, group))
    if not places:
        return None
    match, group = rng.choice(places)
    return _put(sentence, match, rng.choice([word for word in group if word != match.group()]))


def negation(sentence: str, siblings: Siblings, rng: random.Random) -> str | None:
    """A negation taken out, or put in where there is none."""
    denied = list(_DENIED.finditer(sentence))
    if denied:
        match = rng.choice(denied)
        return _put(sentence, match, _affirmed(match)).strip()
    places = list(_AFFIRMED.finditer(sentence))
    if not places or sentence.rstrip().endswith("?"):
        return None
    match = places[0] if rng.random() < 0.7 else rng.choice(places)
    return _put(sentence, match, _negated(match.group(), rng))


def _affirmed(match: regex.Match[str]) -> str:
    text, lower = match.group(), match.group().casefold()
    if match["is"]:
        word = {"ca": "can", "wo": "will"}.get(match["is"].casefold(), match["is"])
        return _cased(word, text)
    if match["do"]:
        verb = match["verb"]
        if match["do"].casefold() == "does":
            return _third(verb)
        return _cased(verb, text) if match["do"].casefold() == "do" else f"did {verb}"
    exact = {
        "cannot": "can", "can not": "can", "no longer": "still", "never": "always", "without": "with", "no": "a",
        "neither": "both", "unable to": "able to", "not": "",
    }  # fmt: skip
    if lower in exact:
        return _cased(exact[lower], text)
    return text[:-2] + ("a" if lower.startswith("there is") else "some")


def _negated(word: str, rng: random.Random) -> str:
    lower = word.casefold()
    if lower.startswith("you "):
        rest = lower[4:]
        said = (
            f"{rest}not" if rest == "can" else f"{rest} not" if rest in ("must", "should", "will") else f"do not {rest}"
        )
        return word[:4] + said
    if lower == "can":
        return _cased(rng.choice(("cannot", "can't", "can not")), word)
    if regex.fullmatch(_AUXILIARY, lower):
        short = lower not in ("may", "might", "must", "need") and rng.random() < 0.4
        return f"{word}n't" if short and lower != "will" else "won't" if short else f"{word} not"
    if lower.endswith("s") and word[0].islower():
        return rng.choice(("does not", "doesn't", "never" if rng.random() < 0.3 else "does not")) + f" {_base(lower)}"
    return rng.choice(("Do not ", "Don't ", "Never ")) + lower


def _base(verb: str) -> str:
    return _BASE.get(verb) or (verb[:-2] if verb.endswith(("sses", "shes", "ches")) else verb[:-1])


def _third(verb: str) -> str:
    known = {base: third for third, base in _BASE.items()}
    return known.get(verb) or verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "o")) else "s")


def opposite(sentence: str, siblings: Siblings, rng: random.Random) -> str | None:
    """A word turned into its opposite."""
    places = [match for match in _WORD.finditer(sentence) if match.group().casefold() in _OPPOSITE]
    if not places:
        return None
    match = rng.choice(places)
    return _put(sentence, match, _cased(rng.choice(_OPPOSITE[match.group().casefold()]), match.group()))


def option(sentence: str, siblings: Siblings, rng: random.Random) -> str | None:
    """An option, command, file or value swapped with one of its form beside it."""
    places = list(OPTION.finditer(sentence))
    rng.shuffle(places)
    for match in places:
        own = match.group()
        form = _form(own)
        others = siblings.like(OPTION, sentence, lambda one, form=form: _form(one) == form)  # type: ignore[misc]
        others = [one for one in others if one.strip("`-").casefold() not in sentence.casefold()]
        if others:
            return _put(sentence, match, others[min(int(rng.expovariate(0.5)), len(others) - 1)])
    return None


def _form(option: str) -> str:
    """What an option looks like: only its like can take its place."""
    bare = option.strip("`")
    marks = "".join(sorted({char for char in bare if not char.isalnum() and char not in "-_ "}))
    dashes = len(bare) - len(bare.lstrip("-"))
    return f"{option[0] == '`'}{dashes}{'upper' if bare.isupper() else ''}{' ' in bare}{bare.isdigit()}{marks}"


def name(sentence: str, siblings: Siblings, rng: random.Random) -> str | None:
    """A name swapped with another of the section or page, or with another of its kind."""
    known = [(match, group) for match in _WORD.finditer(sentence) for group in _NAMES if match.group() in group]
    if known and rng.random() < 0.5:
        match, group = rng.choice(known)
        return _put(sentence, match, rng.choice([word for word in group if word not in sentence] or [group[0]]))
    places = list(NAME.finditer(sentence))
    rng.shuffle(places)
    for match in places:
        own = match.group()
        words = own.count(" ")
        alike = lambda one, words=words: abs(one.count(" ") - words) <= 1 and not set(stems(one)) & set(stems(own))  # noqa: E731,B023
        others = siblings.like(NAME, sentence, alike)
        if others:
            return _put(sentence, match, rng.choice(others[:6]))
    return None


def condition(sentence: str, siblings: Siblings, rng: random.Random) -> str | None:
    """A condition dropped: what holds in one case is said of all."""
    ways = []
    for pattern in (_CONDITION, _CONDITIONAL):
        if match := pattern.match(sentence):
            rest = match["rest"].strip().rstrip(",")
            ways.append(rest[:1].upper() + rest[1:] + ("" if rest[-1:] in ".!" else "."))
    if hedges := list(_HEDGE.finditer(sentence)):
        match = rng.choice(hedges)
        other = {"by default": "always ", "sometimes": "always ", "usually": "always ", "often": "always "}
        left = _put(sentence, match, other.get(match.group().strip().casefold(), ""))
        ways.append(left[:1].upper() + left[1:])
    return rng.choice(ways) if ways else None


def yes_no(sentence: str, siblings: Siblings, rng: random.Random) -> str | None:
    """`Yes` turned into `No`, or the reverse."""
    match = _YES_NO.match(sentence)
    return _put(sentence, match, "No" if match.group() == "Yes" else "Yes") if match else None


EDITS: Mapping[str, Edit] = {
    "number": number,
    "unit": unit,
    "negation": negation,
    "opposite": opposite,
    "option": option,
    "name": name,
    "condition": condition,
    "yes/no": yes_no,
}
"""The kinds of edits, by name."""


def turned(sentence: str, siblings: Siblings, rng: random.Random) -> dict[str, str]:
    """The sentence turned in each way that it allows, by the kind of edit; none that says the same words as before."""
    made = {kind: edit(sentence, siblings, rng) for kind, edit in EDITS.items()}
    before = _bare(sentence)
    return {kind: text for kind, text in made.items() if text and len(text) > 10 and _bare(text) != before}


_RETOLD: Sequence[tuple[str, str]] = (
    (r"\bdo not\b", "don't"), (r"\bdon['’]t\b", "do not"), (r"\bdoes not\b", "doesn't"), (r"\bdoesn['’]t\b", "does not"),
    (r"\bcannot\b", "can't"), (r"\bcan['’]t\b", "cannot"), (r"\bis not\b", "isn't"), (r"\bisn['’]t\b", "is not"),
    (r"\bwill not\b", "won't"), (r"\bit is\b", "it's"), (r"\byou will\b", "you'll"), (r"\byou are\b", "you're"),
    (r"\bin order to\b", "to"), (r"\bsuch as\b", "like"), (r"\bfor example\b", "for instance"), (r"\bvia\b", "through"),
    (r"\bdefaults to\b", "is by default"), (r"\ballows you to\b", "lets you"), (r"\byou must\b", "you have to"),
    (r"\byou can\b", "it is possible to"), (r"\byou need to\b", "you have to"), (r"\brequires\b", "needs"),
    (r"\bprovides\b", "offers"), (r"\bcreate\b", "make"), (r"\bhowever,? ", ""), (r"\bplease\b ?", ""),
    (r"\balso\b ?", ""), (r"\bsimply\b ?", ""), (r"\bjust\b ?", ""), (r" \([^()]{3,80}\)", ""), (r"\bNote that\b ?", ""),
    (r",? (?:for example|for instance|e\.g\.)[^,.]*(?=[,.])", ""), (r"\bset up\b", "configure"), (r"\bif\b", "in case"),
    (r"\bthe following\b", "these"), (r"\buse\b", "make use of"), (r"\bensure\b", "make sure"), (r"\bmultiple\b", "several"),
    (r"\bspecify\b", "give"), (r"\bcontains\b", "holds"), (r"\bbegin\b", "start"), (r"\bobtain\b", "get"),
    (r"\bwant to\b", "wish to"), (r"\badditional\b", "further"), (r"\bprior to\b", "before"), (r"\btwo\b", "2"),
    (r"\bthree\b", "3"), (r"\bfour\b", "4"), (r"\b5\b", "five"), (r"\b2\b(?![.\d])", "two"), (r"\b10\b(?![.\d])", "ten"),
    (r"(?<=\d),(?=\d{3}\b)", ""), (r"\bthis means\b", "so"), (r"\bapproximately\b", "about"), (r"\bis able to\b", "can"),
    (r"\bthe user\b", "a person"), (r"\busers\b", "people"), (r"\bcommand\b", "call"), (r"\bdirectory\b", "folder"),
    (r"\bfolder\b", "directory"), (r"\bdocumentation\b", "docs"), (r"\bconfiguration\b", "settings"),
)  # fmt: skip
_RETELL = [(regex.compile(pattern, regex.IGNORECASE), put) for pattern, put in _RETOLD]
_BEGINNING = ("By the docs, ", "According to the documentation, ", "In short, ", "So ", "Here, ")
_MAIN_FIRST = regex.compile(r"^(?P<if>(?:If|When|Once|Unless) [^,;:]{6,120}), (?P<rest>.{15,}?)(?P<end>[.!]?)$")
_PARTS = regex.compile(r"^(?P<first>.{25,}?)(?:, (?:which|and|but|so) .{10,}|; .{10,})$")


def retold(sentence: str, rng: random.Random) -> str:
    """The sentence in slightly other words that say the same, or a part of the same."""
    text = sentence
    if rng.random() < 0.5 and (match := _MAIN_FIRST.match(text)):
        rest, when = match["rest"], match["if"]
        text = f"{_capital(rest)} {when[:1].lower()}{when[1:]}{match['end']}"
    elif rng.random() < 0.35 and (match := _PARTS.match(text)):
        text = match["first"] + "."
    ways = [(pattern, put) for pattern, put in _RETELL if pattern.search(text)]
    for pattern, put in rng.sample(ways, min(len(ways), rng.randint(1, 3))):
        text = pattern.sub(lambda match, put=put: _cased(put, match.group()), text, count=1)  # type: ignore[misc]
    if rng.random() < 0.15:
        text = rng.choice(_BEGINNING) + text[:1].lower() + text[1:]
    if rng.random() < 0.3:
        text = text.replace("`", "").replace("**", "")
    return _capital(text.strip(" ,;"))


def _ordinal_end(sentence: str) -> int:
    match = _ORDINAL.match(sentence)
    return match.end() if match else 0


def _put(sentence: str, match: regex.Match[str], other: str) -> str:
    text = sentence[: match.start()] + other + sentence[match.end() :]
    return regex.sub(r" {2,}", " ", text) if not other else text


def _cased(other: str, like: str) -> str:
    return other[:1].upper() + other[1:] if like[:1].isupper() and not like[1:2].isupper() else other


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _bare(text: str) -> str:
    return " ".join(regex.findall(r"[\w']+", text.casefold()))
