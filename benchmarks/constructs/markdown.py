"""Constructs of Markdown, and those that MDX adds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.constructs.making import WORDS, Make, again, indented, repeated, wide


def _backticks(size: int) -> bytes:
    """Runs of backticks, no two of them alike, so that none closes another."""
    count = max(1, int((2 * size) ** 0.5))
    return (WORDS + "# " + " ".join("`" * n for n in range(1, count)) + "\n").encode()


MARKDOWN: Mapping[str, Make] = {
    "paragraphs": repeated("Some words make a sentence. Others make another one.\n\n"),
    "one paragraph": repeated("Some words make a sentence, on and on and on.\n"),
    "one line": repeated("some words without end and "),
    "one word": repeated("x"),
    "word of closers": repeated('x.*"'),
    "closers": repeated('"*)'),
    "full stops": repeated("."),
    "short sentences": repeated("A. "),
    "blank lines": repeated("\n", after="End."),
    "blanks": repeated(" ", after="End."),
    "blanks within a line": repeated(" ", before="Begin"),
    "no-break spaces": repeated("\u00a0", after="End."),
    "headings": repeated("## Heading %d\n\nWords.\n\n"),
    "headings alone": repeated("# Heading %d\n"),
    "headings in levels": repeated("# A\n## B\n### C\n#### D\n##### E\n###### F\n\nWords.\n"),
    "underlined headings": repeated("Heading %d\n---\n\nWords.\n\n"),
    "long heading": repeated("word ", before="# "),
    "long underlined heading": repeated("word\n", after="---\n\nWords.\n"),
    "emphasis in a heading": repeated("*a **b _c ", before="# "),
    "emphasis in many headings": repeated("# *a **b _c `d [e\n\n"),
    "hashes in a heading": repeated("#", before="# a "),
    "braces in a heading": repeated("{ #a ", before="# a"),
    "list": repeated("- item %d of it\n"),
    "loose list": repeated("- item %d of it\n\n"),
    "numbered list": repeated("1. item\n"),
    "nested lists": partial(indented, "- item\n"),
    "nested lists in a line": repeated("- "),
    "list then text": repeated("- item\n  more\n\n  more\n"),
    "quotes": repeated("> words\n\n"),
    "nested quotes": repeated(">"),
    "nested quotes, lines": partial(indented, "words\n", step="> "),
    "quotes and lists": repeated("> - "),
    "emphasis": repeated("*a **b _c "),
    "stars": repeated("*"),
    "brackets": repeated("["),
    "links": repeated("[a](b) "),
    "open links": repeated("[a]("),
    "link definitions": repeated("[a%d]: /b%d\n"),
    "link definitions with titles": repeated("[a%d]: /b%d '\n"),
    "open link definitions": repeated("[a"),
    "pictures": repeated("![a](b)"),
    "backticks": _backticks,
    "angle brackets": repeated("<a "),
    "entities": repeated("&a;&amp;"),
    "backslashes": repeated("\\"),
    "table": repeated("| a%d | b |\n", before=WORDS + "| a | b |\n|---|---|\n"),
    "wide table": partial(wide, "|", " a |", "\n", rule="---|"),
    "wide row": partial(wide, "| a |\n|---|\n|", " a |", "\n"),
    "short rows of a wide table": lambda size: (
        again("a |", size // 3, WORDS) + b"\n" + again("---|", size // 3, "|") + again("\n| a |", size // 3, "")
    ),
    "tables": repeated("| a |\n|---|\n| b |\n\n"),
    "pipes": repeated("|"),
    "fences": repeated("```\ncode\n```\n\n"),
    "open fence": repeated("code = 1\n", before=WORDS + "```python\n"),
    "fences of all lengths": partial(indented, "\n", step="`"),
    "long line of code": repeated("code ", before=WORDS + "```\n", after="\n```\n"),
    "indented code": repeated("    code\n\n"),
    "rules": repeated("---\n\n"),
    "html blocks": repeated("<div>\nwords\n</div>\n\n"),
    "open html": repeated("<div>"),
    "html comments": repeated("<!-- a -->\n\nWords.\n\n"),
    "open html comments": repeated("<!-- a\n\n"),
    "comments in a paragraph": repeated("a <!-- b --> c\n"),
    "comment openings in a paragraph": repeated("a <!-- b "),
    "comment and emphasis": repeated("*a **b _c ", before=WORDS + "a <!-- b --> "),
    "comment and brackets": repeated("[a](", before=WORDS + "a <!-- b --> "),
    "comment and stars": repeated("a**b*", before=WORDS + "a <!-- b --> "),
    "comment and openings": repeated("<", before=WORDS + "a <!-- b --> "),
    "comment and tags": repeated("<a b='", before=WORDS + "a <!-- b --> "),
    "comment and pictures": repeated("![", before=WORDS + "a <!-- b --> "),
    "comment and declarations": repeated("<!A ", before=WORDS + "a <!-- b --> "),
    "comment and instructions": repeated("<?", before=WORDS + "a <!-- b --> "),
    "comment and cdata": repeated("<![CDATA[", before=WORDS + "a <!-- b --> "),
    "containers": repeated(":::note\nWords.\n:::\n\n"),
    "open containers": repeated(":::note\n"),
    "open containers, slashes": repeated("/// note\n"),
    "admonitions": repeated("!!! note\n    Words.\n\n"),
    "nested admonitions": partial(indented, "!!! note\n", step="    "),
    "long admonition title": repeated("x", before="!!! note ", after="\n    Words.\n"),
    "front matter": repeated("k%d: v\n", before="---\n", after="---\n\nWords.\n"),
    "long front matter": repeated("x", before="---\nk: ", after="\n---\n\nWords.\n"),
    "nested front matter": repeated("[", before="---\nk: ", after="\n---\n\nWords.\n"),
    "nested front matter, maps": repeated("? ", before="---\n", after="\n---\n\nWords.\n"),
    "open front matter": repeated("k: v\n", before="---\n"),
    "carriage returns": repeated("\r"),
    "control characters": repeated("a\x1bb\u202e "),
    "no spaces": repeated("話"),
    "arabic": repeated("كلمة "),
    "surrogate pairs": repeated("😀"),
}


MDX: Mapping[str, Make] = {
    "imports": repeated("import a from 'b'\n\n"),
    "comments": repeated("{/* a */}\n\nWords.\n\n"),
    "open comments": repeated("{/* a\n\n"),
    "tags": repeated("<Note>\n\nWords.\n\n</Note>\n\n"),
    "deep indentation": partial(indented, "words\n\n"),
}
