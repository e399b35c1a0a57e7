"""The prompts of a turn, one Markdown file each."""
