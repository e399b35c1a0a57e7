"""The models Anaphora knows by name: what they are, where their files come from, and fetching them.

fetch(name, home, progress)   files into `<home>/models/<name>`, verified
ensure(reference, home)       a path for anything a setting may name, fetched first if need be
resolve(reference, home)      the same without touching a network
"""

from server.registry.bar import progress_bar
from server.registry.errors import DiskFull, FetchError, ModelNotFetched, RegistryError, UnknownModel, WrongHash
from server.registry.fetching import FetchProgress, ensure, fetch, resolve
from server.registry.models import RegisteredModel, find, registered_models

__all__ = [
    "DiskFull",
    "FetchError",
    "FetchProgress",
    "ModelNotFetched",
    "RegisteredModel",
    "RegistryError",
    "UnknownModel",
    "WrongHash",
    "ensure",
    "fetch",
    "find",
    "progress_bar",
    "registered_models",
    "resolve",
]
