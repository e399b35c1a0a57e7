"""The models Anaphora knows by name: what they are, where their files come from, and fetching them.

fetch(name, home, progress)   files into `<home>/models/<name>`, verified
ensure(reference, home)       a path for anything a setting may name, fetched first if need be
resolve(reference, home)      the same without touching a network
"""

from server.registry.bar import progress_bar
from server.registry.errors import DiskFull, FetchError, ModelNotFetched, RegistryError, UnknownModel, WrongHash
from server.registry.fetching import FetchProgress, ensure, fetch, resolve
from server.registry.models import RegisteredModel, find, registered_models
from server.registry.remembered import demand_reference, hub_model, remembered

__all__ = [
    "DiskFull",
    "FetchError",
    "FetchProgress",
    "ModelNotFetched",
    "RegisteredModel",
    "RegistryError",
    "UnknownModel",
    "WrongHash",
    "demand_reference",
    "ensure",
    "fetch",
    "find",
    "hub_model",
    "progress_bar",
    "registered_models",
    "remembered",
    "resolve",
]
