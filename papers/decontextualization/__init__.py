"""Code that reproduces a paper; README.md describes it."""
