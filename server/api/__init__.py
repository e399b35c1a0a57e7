"""The HTTP API: an OpenAI-compatible chat over collections, and everything the page shows.

`routes` has a module for each kind of thing. Chat completions are a folder of `router` (what is asked of HTTP),
`protocol` (the shapes that go in and out) and `serving` (what happens).
"""
