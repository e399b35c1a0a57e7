"""Errors of the chat service.

ChatError                   base; `code` is a stable name, the message says what happened and what to do
├── InvalidRequest          the request cannot be answered as it stands (too long, contradictory, unknown format)
├── Forbidden               the role of whoever asks does not allow it
├── NotFound                no conversation, turn, collection, document or job of that id
├── TooLarge                an upload is larger than the settings allow
├── TooManyRequests         `retry_after` says in how many seconds to try again
│   ├── QueueFull           too many turns are waiting
│   └── LimitReached        whoever asks has used what one principal may use
├── Conflict                the thing exists already, or is busy with something else
└── Unavailable             a model or the disk is not usable now; trying again later may work
"""

from __future__ import annotations


class ChatError(Exception):
    """Base of what the service refuses; safe to show to a person."""

    code = "chat_error"

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code


class InvalidRequest(ChatError):
    """The request cannot be answered as it stands."""

    code = "invalid_request"


class Forbidden(ChatError):
    """The role of whoever asks does not allow it."""

    code = "forbidden"


class NotFound(ChatError):
    """No such conversation, turn, collection, document or job."""

    code = "not_found"


class TooLarge(ChatError):
    """An upload is larger than the settings allow."""

    code = "too_large"


class TooManyRequests(ChatError):
    """Too much at once, or too soon; the same request will be answered later."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(f"{message} Try again in {retry_after} s.")
        self.retry_after = retry_after


class QueueFull(TooManyRequests):
    """Too many turns are waiting already."""

    code = "queue_full"


class LimitReached(TooManyRequests):
    """Whoever asks has used what one principal may use; the message names the limit."""

    code = "rate_limit_exceeded"


class Conflict(ChatError):
    """The thing exists already, or is busy with something else."""

    code = "conflict"


class Unavailable(ChatError):
    """A model or the disk is not usable now."""

    code = "unavailable"
