"""What the rooms above share: sentences, words, characters, files and names."""
