"""Writes `docs/synth-run.md` from the folder of a run: `python docs/synth_run.py DIR`.

Numbers, tables and dialogs are the run's; only the remarks on quality are a person's, and stand in
`docs/synth-run-remarks.txt`.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEAD = """# A run with the local model

What [`anaphora synth`](synth.md) made of {documents} documents (short pages of FastAPI's documentation and of US
government agencies, the latter from Doc2Dial) with the 1.5B model that answers on a laptop. This page is written by
`docs/synth_run.py` from the run's files.

## Quality

{remarks}
"""


def main(run: Path) -> None:
    """Put the run's report, its comparison and the remarks together."""
    from synth.facts import read_facts
    from synth.folder import Folder
    from synth.report.writing import material, render

    folder = Folder(run)
    facts = read_facts(folder.facts)
    written = HERE / "synth-run-remarks.txt"
    remarks = written.read_text("utf-8").strip() if written.is_file() else "Nobody has read these dialogs yet."
    report = render("report.md", material(folder, facts)).partition("\n")[2]
    parts = [HEAD.format(documents=facts.documents, remarks=remarks), "## The run\n", report.strip()]
    comparison = run / "compare.md"
    if comparison.is_file():
        told = (
            "## Propositions against sentences\n\nThe run's questions over the run's documents "
            "(`anaphora synth compare`). With so few documents the numbers are high, and differences of a few "
            "hundredths mean nothing.\n"
        )
        parts += ["", told, comparison.read_text("utf-8").strip()]
    (HERE / "synth-run.md").write_text("\n".join(parts) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
