"""`python -m papers.citation_summaries`: summaries of cited documents: measure every variant, or process a file of citances."""

from __future__ import annotations

from papers.citation_summaries.command import why as batch_command
from papers.citation_summaries.measure_command import why as measure_command
from papers.command_line import paper_app

app = paper_app(
    "Summaries of cited documents: measure every variant, or process a file of citances.",
    measure=measure_command,
    batch=batch_command,
)

if __name__ == "__main__":
    app(prog_name="python -m papers.citation_summaries")
