"""`python -m papers.orconvqa`: conversational retrieval: rewriting, dialogs and propositions, measured."""

from __future__ import annotations

from papers.command_line import paper_app
from papers.orconvqa.answers_command import answers as answers_command
from papers.orconvqa.check_command import check as check_command
from papers.orconvqa.compare_command import compare as compare_command
from papers.orconvqa.dialogs_command import dialogs as dialogs_command
from papers.orconvqa.families_command import families as families_command
from papers.orconvqa.responses_command import bertscore, responses
from papers.orconvqa.retrieval_command import candidates, retrieval, tables
from papers.orconvqa.rewrite_command import rewrite as rewrite_command
from papers.orconvqa.rewriting_command import rewriting as rewriting_command

app = paper_app(
    "Conversational retrieval: rewriting, dialogs and propositions, measured.",
    answers=answers_command,
    rewriting=rewriting_command,
    dialogs=dialogs_command,
    check=check_command,
    rewrite=rewrite_command,
    compare=compare_command,
    bertscore=bertscore,
    responses=responses,
    retrieval=retrieval,
    tables=tables,
    candidates=candidates,
    families=families_command,
)

if __name__ == "__main__":
    app(prog_name="python -m papers.orconvqa")
