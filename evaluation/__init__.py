"""Everything that measures: retrieval, rewriting, answers, dialogs; and what is decided by it.

`sets` are data sets, `metrics` what is counted and how sure a difference is, `reports` what is kept and shown of a run,
`batches` many questions from file to file. The modules beside them do one kind of measuring each. `adaptation` makes a
rewriter for an operator's documents and promotes it by evidence, `calibration` chooses settings of the search. The
parts are put together by the code of a chat turn; models and engines are handed in. The names listed here are imported
on first use.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
