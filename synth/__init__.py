"""synth/: propositions and annotated dialogs made from documents.

This room is empty yet: its seam is `index.Document` on the one side and `rewriter.Conversation` on the
other, and it is handed a `langchain_core` chat model; it builds none itself.
"""
