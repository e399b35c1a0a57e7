"""`python -m papers.decontextualization`: quotes that stand alone: measure every variant, or process a file of quotes."""

from __future__ import annotations

from papers.command_line import paper_app
from papers.decontextualization.command import standalone as batch_command
from papers.decontextualization.measure_command import standalone as measure_command

app = paper_app(
    "Quotes that stand alone: measure every variant, or process a file of quotes.",
    measure=measure_command,
    batch=batch_command,
)

if __name__ == "__main__":
    app(prog_name="python -m papers.decontextualization")
