"""Errors of the engines.

EngineError
├── EngineFailed         the local engine could not start, or kept dying
└── EngineUnreachable    the server at the URL does not answer, or refuses
"""


class EngineError(Exception):
    """Base of every error of an engine; the message says what happened and what to do."""


class EngineFailed(EngineError):
    """The local engine could not start, or kept dying."""


class EngineUnreachable(EngineError):
    """The server at the URL does not answer, or refuses."""
