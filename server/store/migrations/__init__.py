"""The tables, as numbered SQL scripts: each runs once, in order, in a transaction of its own."""
