"""reStructuredText, as docutils reads it, turned into Markdown by way of HTML.

Documents are not trusted: nothing is included, inserted raw or fetched. Sphinx's directives and roles
are known as far as their words go; an unknown directive stays as the source shows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from docutils import nodes
from docutils.core import publish_doctree, publish_from_doctree
from docutils.parsers.rst import Directive, Parser, directives, roles, states
from docutils.readers import standalone
from docutils.transforms import frontmatter, references
from docutils.utils import SystemMessage

from index.documents import LABELLED, LABELS, Document
from index.errors import LoadError
from index.loaders.html import from_html
from index.loaders.reading import read_text

# docutils' own bound: it guards its regular expressions and the growth of substitutions.
_MAX_LINE = 10_000
_DROPPED = (
    "contents toctree index currentmodule module py:module py:currentmodule highlight default-domain automodule "
    "autoclass autofunction automethod autodata autoexception autosummary literalinclude tabularcolumns program "
    "testsetup testcleanup"
)
_SPOKEN = (
    "versionadded versionchanged deprecated versionremoved seealso todo only centered hlist glossary productionlist "
    "acks tabs tab group-tab tab-set tab-item dropdown card grid details function class method attribute data "
    "exception decorator staticmethod classmethod property describe object option envvar cmdoption confval "
    "py:function py:class py:method py:attribute py:data py:exception py:property c:function c:type c:macro "
    "js:function rst:directive"
)
_CODE = "testcode doctest prompt code-block-tabs jinja"
_CODE_ROLES = (
    "func meth class mod attr data exc const obj py:func py:meth py:class py:mod py:attr py:data py:exc py:const "
    "py:obj file program option envvar command kbd samp token keyword c:func c:type c:macro regexp guilabel "
    "menuselection dfn makevar mimetype newsgroup download"
)
_WORD_ROLES = "term numref any abbr pep rfc issue envvar cve manpage eq"
_SETTINGS: dict[str, Any] = {
    "_disable_config": True,
    "embed_stylesheet": False,
    "file_insertion_enabled": False,
    "halt_level": 5,
    "input_encoding": "unicode",
    "output_encoding": "unicode",
    "line_length_limit": _MAX_LINE,
    "math_output": "LaTeX",
    "raw_enabled": False,
    "report_level": 3,
    "smart_quotes": False,
    "stylesheet_path": "",
    "syntax_highlight": "none",
    "toc_backlinks": False,
    "warning_stream": False,
}
_REFUSED = re.compile(r"\.\. (?:include|raw|csv-table)::")
_TARGET = re.compile(r"^(.*?)\s*<[^<>]*>$", re.DOTALL)


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError where the file cannot be read, parsed, or holds no text."""
    text = read_text(path, max_bytes)
    longest = max(map(len, text.split("\n")))
    if longest > _MAX_LINE:
        raise LoadError(
            f"{path.name} has a line of {longest} characters, more than reStructuredText is read with ({_MAX_LINE}): "
            "break the line, or rename the file to .txt"
        )
    nothing = "holds no text besides directives: fill it or exclude it"
    html, labels = _html(text, path.name)
    documents = from_html(html, document_id, path, "rst", nothing)
    metadata = {LABELS: json.dumps(labels, ensure_ascii=False)} if labels else {}
    return [replace(document, metadata={**document.metadata, **metadata}) for document in documents]


def _html(source: str, name: str) -> tuple[str, dict[str, str]]:
    """A page, and its labels with the anchors of the headings that they stand before."""
    roles._roles = dict(_ROLES)  # type: ignore[attr-defined]  # those that another file declared are its own
    try:
        tree = publish_doctree(source, reader=_Reader(), settings_overrides=_SETTINGS)
        labels = _labels(tree)
        _plain(tree)
        tree.parse_messages, tree.transform_messages = [], []
        html = publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS)
    except (SystemMessage, RecursionError, ValueError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise LoadError(
            f"{name} is not reStructuredText that can be parsed ({type(error).__name__}: {error}): "
            "correct it, or rename the file to .txt"
        ) from error
    return str(html), labels


def _labels(tree: nodes.Element) -> dict[str, str]:
    waiting, labels = list[str](), dict[str, str]()
    for node in tree.findall(nodes.Element):
        if isinstance(node, nodes.target) and "refuri" not in node:
            waiting += node["names"]
        elif waiting and not isinstance(node, nodes.comment):
            heading = node[0].astext().lower() if isinstance(node, nodes.section) else ""
            labels |= dict.fromkeys(waiting, re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
            waiting = []
    return labels


def _plain(tree: nodes.Element) -> None:
    """Leave words where targets and links without an address are, and the text where the parser complains about it.

    In one pass.
    """
    waiting: list[nodes.Element] = [tree]
    while waiting:
        element = waiting.pop()
        children: list[nodes.Node] = []
        left = list(reversed(element.children))
        while left:
            child = left.pop()
            if isinstance(child, nodes.system_message):
                # The parser's complaints are not the author's words; the text they are about is.
                blocks = [block for block in child.findall(nodes.literal_block) if not _REFUSED.match(block.astext())]
                left.extend(reversed(blocks))
            elif isinstance(child, nodes.problematic | nodes.reference | nodes.target) and "refuri" not in child:
                left.extend(reversed(child.children))
            elif isinstance(child, nodes.footnote_reference) and not child.children:
                children.append(nodes.Text("[#]"))
            elif not isinstance(child, nodes.comment):
                children.append(child)
                if isinstance(child, nodes.Element):
                    waiting.append(child)
        element.children = children
        for child in children:
            element.setup_child(child)


class _Reader(standalone.Reader):  # type: ignore[type-arg]
    """docutils' reader without what resolves links, and without complaints about markup in a line."""

    def __init__(self) -> None:
        inliner: Any = states.Inliner()
        parse = inliner.parse
        inliner.parse = lambda *arguments: (parse(*arguments)[0], [])
        inliner.problematic = lambda text, rawsource, message: nodes.Text(text)
        super().__init__(parser=Parser(inliner=inliner))

    def get_transforms(self) -> list[Any]:
        return [references.Substitutions, frontmatter.DocTitle, frontmatter.DocInfo, references.Footnotes]


class _AnyOption(dict[str, Any]):
    """Accepts every option and its text as it is."""

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, name: str) -> Any:
        return directives.unchanged


class _Spoken(Directive):
    """The arguments as a paragraph of their own, then the content."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = _AnyOption()

    def run(self) -> list[nodes.Node]:
        box = nodes.container()
        if self.arguments:
            lead = "" if self.name in ("only", "glossary") else " ".join(self.arguments[0].split())
            label = {"versionadded": "Added in version ", "versionchanged": "Changed in version ",
                     "deprecated": "Deprecated since version "}.get(self.name, "")  # fmt: skip
            inline, _ = self.state.inline_text(label + lead, self.lineno)
            box += nodes.paragraph("", "", *inline)
        self.state.nested_parse(self.content, self.content_offset, box)
        return [box]


class _Dropped(_Spoken):
    """Something only a generator can fill."""

    def run(self) -> list[nodes.Node]:
        return []


class _Code(_Spoken):
    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        return [nodes.literal_block(code, code)]


def _role(build: Callable[[str, str], nodes.Node]) -> Any:
    """Build the handler for a role from a function of its words and its target."""

    def played(
        name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = None
    ) -> Any:
        text = text.replace("\x00", "")
        match = _TARGET.match(text)
        words = match[1] if match and match[1] else text.lstrip("~!")
        return [build(words, text.rpartition("<")[2].rstrip(">"))], []

    roles.set_implicit_options(played)
    return played


def _labelled(words: str, target: str) -> nodes.Node:
    return nodes.reference(words, words, refuri=LABELLED + quote(nodes.fully_normalize_name(target)))


for _names, _directive in ((_DROPPED, _Dropped), (_SPOKEN, _Spoken), (_CODE, _Code)):
    for _name in _names.split():
        directives.register_directive(_name, _directive)
_ROLES = {
    **dict.fromkeys(_CODE_ROLES.split(), _role(lambda words, _: nodes.literal(words, words))),
    **dict.fromkeys(_WORD_ROLES.split(), _role(lambda words, _: nodes.Text(words))),
    "doc": _role(lambda words, target: nodes.reference(words, words, refuri=target)),
    "ref": _role(_labelled),
}
