"""Errors of the model registry.

RegistryError
├── UnknownModel       no model of that name
├── ModelNotFetched    the model is known, but its files are not in the home folder
└── FetchError         no source could deliver the model
    ├── WrongHash      a file came, but it is not the file the model registry names
    └── DiskFull       there is no room for the model
"""


class RegistryError(Exception):
    """Base of every error of the model registry; the message says what happened and what to do."""


class UnknownModel(RegistryError):
    """No model of that name."""


class ModelNotFetched(RegistryError):
    """The model is known, but its files are not in the home folder."""


class FetchError(RegistryError):
    """No source could deliver the model."""


class WrongHash(FetchError):
    """A file came whose SHA-256 is not the one in the model registry; it was deleted."""


class DiskFull(FetchError):
    """The disk has no room for the model."""
