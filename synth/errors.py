"""Errors of the synth room.

SynthError
├── NoDocuments    the paths that were given hold no document
├── RunBusy        another process is working on the same output folder
├── BadResponses   a file of batch responses is not one
├── BadStore       a file this room reads back is not what it wrote
└── ModelFailed    the language model cannot be reached any more; what was answered is kept
"""


class SynthError(Exception):
    """Base of every error the room raises; the message says what happened and what to do."""


class NoDocuments(SynthError):
    """There is nothing to read."""


class RunBusy(SynthError):
    """Another process is working on the same output folder."""


class BadResponses(SynthError):
    """A file of batch responses cannot be read as one."""


class BadStore(SynthError):
    """A file that is read back does not hold what it should."""


class ModelFailed(SynthError):
    """The language model stopped answering; running the command again goes on from there."""
