"""FastAPI dependencies and shapes that the endpoints share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, TypeVar, cast

from fastapi import Depends, FastAPI, Path, Query, Request
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from starlette.responses import Response
from starlette.types import Scope

from index.query import Where
from server.access import Principal
from server.chat import ChatService, InvalidRequest
from server.chat.service import ServiceCore
from text.files import NAME_CHARS, NAME_PATTERN


async def _service(request: Request) -> ChatService:
    """The service as whoever sent the request may use it: the only one there is for a route."""
    # A plain function would be called in a thread, for every request.
    return cast("ChatService", request.app.state.service).as_principal(request.scope["state"]["principal"])


Service = Annotated[ChatService, Depends(_service)]
S = TypeVar("S")


def service_of(make: Callable[[ServiceCore, Principal], S]) -> Any:
    """Return the dependency of a route on a plugin's own service, as whoever sent the request may use it.

    Example:
        >>> Notes = Annotated[NoteService, service_of(NoteService)]  # doctest: +SKIP
    """

    async def own(service: Service) -> S:
        return make(service.core, service.principal)

    return Depends(own)


CollectionName = Annotated[
    str, Path(description="The collection's name.", examples=["docs"], pattern=NAME_PATTERN, max_length=NAME_CHARS)
]
CollectionFilter = Annotated[
    str, Query(description="Only what is about this collection.", pattern=rf"^$|{NAME_PATTERN}", max_length=NAME_CHARS)
]


async def _narrowed(
    where: Annotated[str, Query(max_length=2000, description='A filter as JSON: `{"version": "2"}`.')] = "",
) -> Where:
    try:
        return _WHERE.validate_json(where or "{}")
    except ValidationError as error:
        raise InvalidRequest('The filter is no JSON: write it as {"version": "2"}.', param="where") from error


_WHERE: TypeAdapter[Where] = TypeAdapter(Where)
Narrowed = Annotated[Where, Depends(_narrowed)]
ConversationId = Annotated[str, Path(description="The conversation's id.")]


def number(value: object) -> object:
    """Return a value of JSON that must be a number: neither `true` nor a text, which pydantic would convert.

    For `field_validator("name", mode="before")`. Raises ValueError.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ValueError("it must be a number")


class StrictBody(BaseModel):
    """A request body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


T = TypeVar("T")


class Listing(BaseModel, Generic[T]):
    """Rows in the order that the operation names."""

    data: list[T]


def show_as_pages(app: FastAPI, page: Callable[[Scope, int, str, Mapping[str, str]], Response]) -> None:
    """Answer errors of addresses that a browser opens by what `page` makes of them, as `ui.routes.error_page` does."""
    app.state.error_page = page
