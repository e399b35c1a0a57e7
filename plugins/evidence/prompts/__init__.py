"""The prompts of this folder, one Markdown file each."""
