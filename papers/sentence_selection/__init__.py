"""The sentence head: which sentence of the passages answers, told from the states of the cross-encoder."""
