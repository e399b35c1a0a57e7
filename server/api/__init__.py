"""The HTTP API: an OpenAI-compatible chat over collections, and everything the page shows.

An endpoint is a folder: `router` (what is asked of HTTP), `protocol` (the shapes that go in and out) and
`serving` (what happens) where there is something to say in each.
"""
