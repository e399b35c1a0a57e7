"""The prompts of the room: Markdown files, an instruction above the line and the material's frame below it."""
