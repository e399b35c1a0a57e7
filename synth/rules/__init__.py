"""synth.rules: triples of history, question and stand-alone question, made from documents by rules alone.

No model is asked. Sentences are tagged and taken apart (`lexicon`, `tagging`, `phrases`, `clauses`), turned into
questions (`asking`, `headings`, `templates`), and put into conversations that point back (`dialog`, `moves`,
`style`). `generate` makes rows, `run` writes files of them, `stats` tells what is in a file.
"""
