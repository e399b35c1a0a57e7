"""Everything that measures: retrieval, rewriting, answers, dialogs; and what is decided by it.

`sets` are data sets, `metrics` what is counted and how sure a difference is, `reports` what is kept and shown of a run,
`batches` many questions from file to file. The modules beside them do one kind of measuring each. `adaptation` makes a
rewriter for an operator's documents and promotes it by evidence, `calibration` chooses settings of the search. The
parts are put together by the code of a chat turn; models and engines are handed in. What is named here is imported when
it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluation.adaptation.workflow import Adaptation, AdaptationPlan, AdaptationResult, AdaptationTools
    from evaluation.errors import EvaluationError
    from evaluation.metrics.ranking import per_question
    from evaluation.metrics.significance import estimate, randomisation
    from evaluation.reports.compare import compare
    from evaluation.reports.runs import EvaluationRun, create_run, read_run
    from evaluation.retrieval import Bench, evaluate_set
    from evaluation.sets import load_set
    from evaluation.sets.base import EvalSet

__all__ = [
    "Adaptation",
    "AdaptationPlan",
    "AdaptationResult",
    "AdaptationTools",
    "Bench",
    "EvalSet",
    "EvaluationError",
    "EvaluationRun",
    "compare",
    "create_run",
    "estimate",
    "evaluate_set",
    "load_set",
    "per_question",
    "randomisation",
    "read_run",
]

_HOMES = {
    "adaptation.workflow": ("Adaptation", "AdaptationPlan", "AdaptationResult", "AdaptationTools"),
    "errors": ("EvaluationError",),
    "metrics.ranking": ("per_question",),
    "metrics.significance": ("estimate", "randomisation"),
    "reports.compare": ("compare",),
    "reports.runs": ("EvaluationRun", "create_run", "read_run"),
    "retrieval": ("Bench", "evaluate_set"),
    "sets": ("load_set",),
    "sets.base": ("EvalSet",),
}
_HOME = {name: f"evaluation.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
