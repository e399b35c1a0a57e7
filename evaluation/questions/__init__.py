"""How good written dialogs are: relevance of questions, coherence, repetition, grounding."""
