"""Recipes: ways to get from a pool of passages to an answer, each a step that can be measured and combined.

A recipe takes a `RecipePool` and the `RecipeTools` and yields its progress and, last, the pool as it leaves it: with
fewer passages, with examples, or with an answer. `cook` runs several, one after the other; what is left is read in one
generation by whoever asked. Taking a question apart needs a search for each part, and is the turn's business
(`server.turn.parts`); whether a question has parts is told by `server.recipes.splitting`.
"""
