"""Measure retrieval and answers, and decide by it.

`questions` are what is asked, `sets` judged sets of them, `metrics` what is counted and how sure a difference is,
`run_folder` and `report` what is kept and shown of a run. `retrieval` measures a chat's search, `adaptation` makes a
rewriter for an operator's documents and promotes it by evidence, `calibration` chooses settings of the search,
`diagnosis` says where answers went wrong. Models and engines are handed in. The names listed here are imported on
first use.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
