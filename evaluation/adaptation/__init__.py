"""Adapting the rewriter to an operator's documents: pairs from them, a run on those, and numbers before it serves.

`questions` are held-out questions and where their answers stand, `measuring` compares two rewriters on them, `steps`
remembers how far an adaptation came, `workflow` joins them.
"""
