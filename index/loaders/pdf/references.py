"""The list of references of a file: an entry a line, told apart by their numbers, or by where their lines begin.

The list is no evidence; it is kept so that a reader can be told what a marker in the text stands for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from index.loaders.pdf.composing import Mending
from index.loaders.pdf.lines import TextLine
from index.loaders.pdf.regions import REFERENCES, Region
from index.loaders.reading import one_line

_BRACKETED = re.compile(r"\[[^\[\]]{1,24}\]")
_NUMBERED = re.compile(r"(\d{1,3})\.?\s")
_YEAR = re.compile(r"(?:19|20)\d\d")
_MOST = 1000
_LONGEST = 600
_NEAR = 40
"""Points within which lines of one column begin."""


def reference_list(regions: Sequence[Region]) -> list[str]:
    """The entries in their order, at most 1,000 of 600 characters."""
    found = [(region.page, line) for region in regions if region.kind == "reference" for line in region.lines]
    lines = [(page, line) for page, line in found if not REFERENCES.fullmatch(line.text)]
    beginnings, labelled = _beginnings(lines)
    entries: list[list[TextLine]] = []
    for (_, line), begins in zip(lines, beginnings, strict=True):
        # Names alone on a line are gone on with.
        named = labelled or not entries or len(entries[-1]) > 1 or _YEAR.search(entries[-1][0].text)
        if not entries or (begins and named):
            entries.append([])
        entries[-1].append(line)
    mending = Mending(regions)
    return [one_line(mending.text(Region("reference", 1, one, one[0].box)), _LONGEST) for one in entries[:_MOST]]


def _beginnings(lines: Sequence[tuple[int, TextLine]]) -> tuple[list[bool], bool]:
    """Which lines begin an entry, and whether entries have numbers or labels."""
    texts = [line.text for _, line in lines]
    bracketed = [bool(_BRACKETED.match(text)) for text in texts]
    if sum(bracketed) > 2:
        return bracketed, True
    numbered, last = list[bool](), 0
    for text in texts:
        found = _NUMBERED.match(text)
        numbered.append(found is not None and int(found[1]) == last + 1)
        last += numbered[-1]
    if sum(numbered) > 2:
        return numbered, True
    # Of a row that is set apart in pieces the first counts.
    beside = [abs(b.middle - a.middle) < 0.5 * b.height and b.x0 > a.x0 for (_, a), (_, b) in pairwise(lines)]
    heads = [True, *(not one for one in beside)][: len(lines)]
    pages = defaultdict[int, list[TextLine]](list)
    for (page, line), head in zip(lines, heads, strict=True):
        if head:
            pages[page].append(line)
    columns = [[other for other in pages[page] if abs(other.x0 - line.x0) < _NEAR] or [line] for page, line in lines]
    lefts = [min(other.x0 for other in column) for column in columns]
    hanging = [
        head and line.x0 < left + 0.4 * line.height for (_, line), left, head in zip(lines, lefts, heads, strict=True)
    ]
    if sum(hanging) < 0.9 * len(hanging):
        return hanging, False
    # Neither numbers nor indents: what follows a line that ends a sentence, if that ends early or this names a year.
    ended = [False] + [
        above.text.endswith(".")
        and (above.x1 < max(other.x1 for other in column) - above.height or bool(_YEAR.search(below.text)))
        for ((_, above), (_, below)), column in zip(pairwise(lines), columns, strict=False)
    ]
    return ended[: len(lines)], False
