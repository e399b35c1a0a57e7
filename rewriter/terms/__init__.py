"""The term rewriter: an encoder marks the words of the history that a follow-up leaves out.

After QuReTeC (Voskarides et al. 2020). It expands the question and writes no sentence; one pass of a small encoder also
judges whether the question needs its history at all. Training is in `training`, serving in `rewriter`.
"""

from rewriter.terms.rewriter import TermRewriter, load

__all__ = ["TermRewriter", "load"]
