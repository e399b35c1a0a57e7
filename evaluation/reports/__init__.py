"""What is kept and shown of an evaluation: runs in folders, tables, plots, pages, comparisons, gates."""
