"""Everything that measures: retrieval, rewriting, answers, dialogs; and what is decided by it.

`questions` are what is asked, `sets` data sets of them, `metrics` and `significance` what is counted and how sure a
difference is, `run_folder` and `report` what is kept and shown of a run. The modules beside them do one kind of
measuring each. `adaptation` makes a rewriter for an operator's documents and promotes it by evidence, `calibration`
chooses settings of the search, `diagnosis` says where answers went wrong. Models and engines are handed in. The names
listed here are imported on first use.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
