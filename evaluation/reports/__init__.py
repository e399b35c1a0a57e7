"""Storage and display of evaluations: runs in folders, tables, plots, pages, comparisons, gates."""
