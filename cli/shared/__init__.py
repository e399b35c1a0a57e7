"""What several commands use: settings, consoles, exit codes, models fetched and opened, progress, files read."""
