"""Adapting the rewriter to an operator's documents: pairs from them, a run on those, and numbers before it serves.

`held_out` has the questions and where their answers stand, `measuring` compares two rewriters and makes rows for a
cross-encoder, and `workflow` joins them and remembers how far an adaptation came.
"""
