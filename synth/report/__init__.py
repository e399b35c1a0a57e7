"""Reports of a run for people: Markdown, a self-contained page, and a data set card."""
