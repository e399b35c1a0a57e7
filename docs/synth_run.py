"""Writes `docs/synth-run.md` from the folder of a run: `python docs/synth_run.py DIR`.

Numbers, tables and dialogs are the run's; only `REMARKS`, on their quality, are a person's who read them.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEAD = """# A run with the local model

What [`anaphora synth`](synth.md) made of {documents} documents (FastAPI's documentation, and pages of US government
agencies from Doc2Dial) with the 1.5B model that answers on a laptop. To fit into an hour, each document was shortened
to its beginning: a window or two, for FastAPI a quarter to four fifths of the page. This page is written by
`docs/synth_run.py` from the run's files.

## Quality

{remarks}
"""

REMARKS = """
Propositions are fair. Of 22 drawn by lot, 15 are true sentences of their page that are understood alone. Two are
cut where the source has a quotation mark, two are fragments or navigation ("LOG IN TO START"), two are understood
only on their page, and one is bent ("You need to get your Class E license in the mail after 2 weeks"). One of them
had also lost its "not", which the source spells "can t"; such spellings are known as negations since. Most of those
left out point at something ("these", "it") and were left out rightly.

Dialogs are poor, and not fit to train a rewriter on. The model goes down the list and asks one question of each
proposition, with a favourite opening ("What is the purpose of …", "What are the options for …") whether it fits or
not. Some questions do not fit their answer ("What do I need to apply for VA life insurance?", answered with the
student aid account). It left nearly every question complete: of the wordings it did change, all were another
question's. The rules then found something to point at in 8 of 91 questions; the paper's large model rewrote a
third. It misnumbered the propositions of 33 of the 91 answers that were kept, and gave the same answer to several
questions 34 times.

So use a larger model for dialogs (an endpoint or batch files), and the rule-made rows of [Triples](rules.md) where
there is none. Comparing pools with these questions is fair all the same, for both pools are asked the same ones.

One window and three lists of wordings ended as *error*, because answers that reach their token limit under a schema
were thrown away by the client. They are kept and mended now; this run was not made again.

The run took 58 minutes on two cores with AVX2 only, four requests at once (`--concurrency 4`, `llm.parallel = 4`).
"""


def main(run: Path) -> None:
    """Put the run's report, its comparison and the remarks together."""
    from synth.facts import read_facts
    from synth.folder import Folder
    from synth.report.writing import material, render

    folder = Folder(run)
    facts = read_facts(folder.facts)
    report = render("report.md", material(folder, facts)).partition("\n")[2]
    parts = [HEAD.format(documents=facts.documents, remarks=REMARKS.strip()), "## The run\n", report.strip()]
    comparison = run / "compare.md"
    if comparison.is_file():
        told = (
            "## Propositions against sentences\n\nThe run's questions over the run's documents "
            "(`anaphora synth compare`). With so few questions, differences of a few "
            "hundredths mean nothing.\n"
        )
        parts += ["", told, comparison.read_text("utf-8").strip()]
    (HERE / "synth-run.md").write_text("\n".join(parts) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
