"""Training models of every family: recipes, and runs that can be killed and resumed.

Steps specific to a family are beside it: `rewriter.terms.training`, `rewriter.conditional.training`,
`rewriter.reranking.training`.
"""

from rewriter.training.recipe import Recipe, read_recipe, recipes
from rewriter.training.run import Machine, export, train

__all__ = ["Machine", "Recipe", "export", "read_recipe", "recipes", "train"]
