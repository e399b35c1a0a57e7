"""The models Anaphora knows by name: what they are, where their files come from, and fetching them.

fetch(name, home, progress)   files into `<home>/models/<name>`, verified; refused where disk or memory is too small
ensure(reference, home)       a path for anything a setting may name, fetched first if need be
resolve(reference, home)      the same without touching a network
"""

from server.registry.catalogue import DiskFull as DiskFull
from server.registry.catalogue import FetchError as FetchError
from server.registry.catalogue import ModelNotFetched as ModelNotFetched
from server.registry.catalogue import RegisteredModel as RegisteredModel
from server.registry.catalogue import RegistryError as RegistryError
from server.registry.catalogue import TooLittleMemory as TooLittleMemory
from server.registry.catalogue import UnknownModel as UnknownModel
from server.registry.catalogue import WrongHash as WrongHash
from server.registry.catalogue import demand_reference as demand_reference
from server.registry.catalogue import find as find
from server.registry.catalogue import hub_reference as hub_reference
from server.registry.catalogue import recommended_models as recommended_models
from server.registry.catalogue import registered_models as registered_models
from server.registry.catalogue import remembered as remembered
from server.registry.fetching import FetchProgress as FetchProgress
from server.registry.fetching import ensure as ensure
from server.registry.fetching import fetch as fetch
from server.registry.fetching import resolve as resolve
