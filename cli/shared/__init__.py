"""Helpers shared by commands: settings, consoles, exit codes, models, progress, input files."""
