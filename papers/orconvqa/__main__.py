"""`python -m papers.orconvqa`: conversational retrieval: rewriting, dialogs and propositions, measured."""

from __future__ import annotations

from papers.command_line import paper_app
from papers.orconvqa.answers import answers
from papers.orconvqa.checking import check
from papers.orconvqa.dialogs import dialogs
from papers.orconvqa.families import families
from papers.orconvqa.pools import compare
from papers.orconvqa.responses import responses
from papers.orconvqa.retrieval import retrieval
from papers.orconvqa.rewriting import rewrite, rewriting
from papers.orconvqa.tables import tables

app = paper_app(
    "Conversational retrieval: rewriting, dialogs and propositions, measured.",
    answers=answers,
    rewriting=rewriting,
    dialogs=dialogs,
    check=check,
    rewrite=rewrite,
    compare=compare,
    responses=responses,
    retrieval=retrieval,
    tables=tables,
    families=families,
)

if __name__ == "__main__":
    app(prog_name="python -m papers.orconvqa")
