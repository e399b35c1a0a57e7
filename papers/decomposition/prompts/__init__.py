"""The prompts of the recipes."""
