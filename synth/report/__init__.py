"""Reports of a run for people: Markdown, a self-contained page with small charts, and a data set card."""
