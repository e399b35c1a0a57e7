"""Does a message ask for a person? Told by its words, in the languages of the page.

`mentions_person` is for offering one beside an answer. `wants_person` is stricter: the message asks for nothing else,
so that nothing is searched. Of 5,562 questions of written and recorded dialogs none is taken for one.
"""

from __future__ import annotations

import regex

_PERSON = r"(?:human|person|people|someone|somebody|agent|operator|representative|support|staff)"
_MENTIONS = regex.compile(
    rf"\b(?:talk|speak|chat|write|get|connect\w*|contact|reach|transfer\w*|pass|hand)\b(?:\W+\w+){{0,5}}?\W+(?:real\s+|human\s+)?{_PERSON}\b"
    rf"|\b(?:real|live|human)\s+{_PERSON}\b"
    r"|\b(?:mensch|mitarbeiter\w*|kundendienst|support)\w*\b(?:\W+\w+){0,4}?\W+(?:sprechen|reden|schreiben|erreichen|verbinden|kontaktieren)\b"
    r"|\b(?:hablar|contactar|comunicar\w*)\b(?:\W+\w+){0,4}?\W+(?:persona|humano|agente|alguien|soporte)\b"
    r"|\b(?:parler|contacter|joindre)\b(?:\W+\w+){0,4}?\W+(?:personne|humain|conseiller|quelqu|support)"
    r"|(?:التحدث|أتحدث|التواصل|أتواصل).{0,30}(?:شخص|إنسان|موظف|الدعم)"
    r"|转?人工客?服?|真人|联系客服|オペレーター|人間と|担当者(?:と|に)|有人(?:対応|チャット)",
    regex.IGNORECASE,
)

_WANTS = regex.compile(
    r"""
    (?(DEFINE)
      (?P<person> (?:(?:an?|the|some|your|any|one\s+of\s+your)\s+)?
        (?:(?:real|live|actual|human|customer|technical|tech|support)\s+)*
        (?:human(?:\s+being)?s?|persons?|people|someone|somebody|agents?|operators?|representatives?|reps?|staff
          |support(?:\s+(?:team|staff|agent|person))?|(?:help|service)\s*desk|team\s+member))
      (?P<mensch> (?:\w+\s+){0,2}? (?:mensch\w*|person|mitarbeiter\w*|kunden(?:dienst|service)|support\w*|jemand\w*
          |berater\w*|ansprechpartner\w*))
    )
    (?:
      (?:.{0,60}\b(?:i|me|we|us|to|just|please|let's)\s+)? (?:talk|speak|chat)(?:ing)?\s+(?:directly\s+)?
        (?:to|with)\s+(?&person)\b.{0,80}
      | (?:please\s+)?(?:connect|transfer|put|pass|hand|get|give)\s+(?:me|us)\s+(?:(?:over|through|on)\s+)?
        (?:(?:to|with)\s+)?(?&person)
      | (?:i|we)(?:\s+really)?\s+(?:want|need)\s+(?&person)
      | is\s+there\s+(?:any|some)(?:one|body)\s+(?:(?:i|we)\s+(?:can|could)|to)\s+(?:talk|speak|chat)\s+(?:to|with)
      | (?:an?\s+)?(?:(?:real|live|actual|human)\s+)+(?:human|person|agent|operator|representative|support|being)
      | human | operator

      | (?!wie\b|wo\b).{0,40}?\bmit\s+(?&mensch)(?:\s+\w+){0,4}?\s+(?:sprechen|reden|chatten|verb[iu]nden(?:\s+werden)?)
      | (?:bitte\s+)?verbinden?\s+(?:sie\s+)?mich(?:\s+bitte)?\s+mit\s+(?&mensch)

      | (?!c[oó]mo\b|d[oó]nde\b).{0,40}?\b(?:hablar|chatear|conversar|comunicar\w*)\s+con\s+(?:\w+\s+){0,2}?
        (?:persona|humano|agente|alguien|soporte|operador\w*|asesor\w*|representante).{0,60}

      | (?!comment\b|o[uù]\b).{0,40}?\b(?:parler|discuter|[ée]changer|chatter)\s+(?:à|avec|au)\s+(?:\w+\s+){0,2}?
        (?:personne|humain|conseill[eè]re?|quelqu['’]un|agent|support|op[ée]rateur).{0,60}

      | (?!كيف|أين|اين).{0,30}?(?:التحدث|أتحدث|اتحدث|التكلم|أتكلم|اتكلم)\s+(?:إلى|الى|مع)\s+.{0,12}?
        (?:شخص|إنسان|انسان|موظف|الدعم|ممثل|خدمة\s+العملاء).{0,40}

      | (?!如何|怎么|怎样|哪里)[^?？]{0,12}(?:转(?:接)?人工|(?:找|联系|跟|和|与)(?:人工|真人|客服))[^?？]{0,10}
      | (?:人工|真人)(?:客服|服务)?
      | [^?？]{0,12}(?:オペレーター|担当者|人間|スタッフ|サポート(?:の人)?)(?:と|に)(?:直接)?
        (?:話|はな|つな|繋|代わ|相談)(?!.*(?:方法|には))[^?？]{0,20}
    )
    [\s.!?？。！¡,،؟]* (?:please|now|bitte|por\s+favor|s'il\s+vous\s+pla[iî]t|svp|من\s+فضلك)? [\s.!?？。！؟]*
    """,
    regex.IGNORECASE | regex.VERBOSE,
)
_ASKS_HOW = regex.compile(r"\bhow\b|^\W*(?:where|what|when|why|which|who)\b", regex.IGNORECASE)
_LONGEST = 160


def mentions_person(text: str) -> bool:
    """Whether a message may want a person, beside what else it asks."""
    return _MENTIONS.search(text[:400]) is not None or wants_person(text)


def wants_person(text: str) -> bool:
    """Whether a message asks for a person and for nothing else."""
    line = " ".join(text.split()).lstrip("¿¡")
    if len(line) > _LONGEST or _ASKS_HOW.search(line):
        return False
    return _WANTS.fullmatch(line) is not None
