"""Optional features: one folder each, found by entry point, removable by deleting the folder."""
