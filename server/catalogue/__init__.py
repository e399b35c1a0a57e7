"""The models Anaphora knows by name: what they are, where their files come from, and fetching them.

fetch(name, home, progress)   files into `<home>/models/<name>`, verified
ensure(reference, home)       a path for anything a setting may name, fetched first if need be
resolve(reference, home)      the same without touching a network
"""

from server.catalogue.bar import progress_bar
from server.catalogue.errors import CatalogueError, DiskFull, FetchError, ModelNotFetched, UnknownModel, WrongHash
from server.catalogue.fetching import FetchProgress, ensure, fetch, resolve
from server.catalogue.models import Model, catalogue, find

__all__ = [
    "CatalogueError",
    "DiskFull",
    "FetchError",
    "FetchProgress",
    "Model",
    "ModelNotFetched",
    "UnknownModel",
    "WrongHash",
    "catalogue",
    "ensure",
    "fetch",
    "find",
    "progress_bar",
    "resolve",
]
