"""Recipes that come with the project; `rewriter.training.recipe` reads them."""
