"""Dialogs: lists of propositions made into conversations by three prompts, checked, split and written."""
