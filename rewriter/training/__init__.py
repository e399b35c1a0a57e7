"""Training rewriters of every family: recipes, mixtures, runs that can be killed and resumed, and their folders.

Steps specific to a family (`families`) are beside the family: `rewriter.terms.training`,
`rewriter.conditional.training`.
"""

from rewriter.training.recipe import Recipe, read_recipe, recipes
from rewriter.training.run import export, train
from rewriter.training.stages import Machine

__all__ = ["Machine", "Recipe", "export", "read_recipe", "recipes", "train"]
