"""Writes `docs/lab/synth-run.md` from the folder of a run: `python docs/lab/synth_run.py DIR`.

Numbers, tables and dialogs are the run's; only `REMARKS`, on their quality, are a person's who read them.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEAD = """# A run with the local model

What [`anaphora synth`](synth.md) made of {documents} whole documents (20 pages of FastAPI's documentation, and 20 of
US government agencies from Doc2Dial, short ones so that it took an hour) with the 1.5B model that answers on a laptop.
This page is written by `docs/lab/synth_run.py` from the run's files.

## Quality

{remarks}
"""

REMARKS = """
Propositions are fair. Of 30 drawn by lot, 25 are true sentences of their page that are understood alone. Two are
headings ("Q&A About Your Title Certificate"), one only points to another page ("Later, when reading about …"), and two
are understood only beside their neighbours ("Another data type is `Decimal`."). Of all 291, 17 are headings, navigation
or cut short, and all of these lack the sign that ends a sentence; one speaks of the page ("The text describes …"). Both
kinds are refused since this run was made.

Dialogs are poor, and not fit to train a rewriter on. The model goes down the list and asks one question of each
proposition, with a favourite opening ("What is the process for …", "What are the requirements for …") whether it fits
or not, so that neighbouring questions rarely belong together. Some answers do not answer ("What can I do with
FastAPI?", answered with registration fees). It repeated an answer 17 times, gave one that its propositions do not hold
26 times, and misnumbered the propositions of 25 of the pairs. It left every question of 17 of 19 dialogs complete, as
if each were the first. Rules that have since been removed then pointed at what had been named ("What are the
requirements for using it to pay for classes?"), so a fifth of the questions need rewriting, where the paper's large
model had a third; today these questions stay complete.

So use a larger model for dialogs (an endpoint or batch files). The comparison of pools below comes out as in the paper:
propositions are found better than sentences, whichever way they are asked for. But these questions were written from
propositions and favour them; people find sentences ([the paper](../../papers/orconvqa/README.md#beside-the-paper)).

The run took 62 minutes on two cores with AVX2 only, four requests at once (`--concurrency 4`, `llm.parallel = 4`),
beside other work at the lowest priority.
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
