"""Support that sees contradiction: a small model that tells what a passage says from what turns it."""
