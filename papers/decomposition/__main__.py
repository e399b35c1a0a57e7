"""`python -m papers.decomposition`: iterated decomposition: select passages, answer, compare with a baseline."""

from __future__ import annotations

from papers.command_line import paper_app
from papers.decomposition.command import recipes as measure_command

app = paper_app("Iterated decomposition: select passages, answer, compare with a baseline.", measure=measure_command)

if __name__ == "__main__":
    app(prog_name="python -m papers.decomposition")
