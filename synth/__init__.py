"""synth/: propositions and annotated dialogs made from documents.

It is handed documents (`index.Document`), an encoder and a `langchain_core` chat model, and builds none of
them itself. `synth.pipeline` puts the steps together: windows → propositions → dialogs → files.
"""
