"""What goes into the endpoints of conversations; what comes out are the service's own types."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from index.query import Where
from server.chat import NAME_PATTERN, ConversationSummary


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewConversation(_Strict):
    """A conversation to be made."""

    collection: str | None = Field(
        default=None, description="The collection it is about; none: the default one.", pattern=NAME_PATTERN
    )
    title: str = Field(default="", max_length=400, description="Empty: its first question becomes its title.")


class NewTitle(_Strict):
    """A conversation's new title."""

    title: str = Field(min_length=1, max_length=400, pattern=r"\S")


class NewTurn(_Strict):
    """A question in a stored conversation."""

    question: str = Field(min_length=1, pattern=r"\S")
    search_for: str | None = Field(default=None, description="Search for this instead of the rewritten question.")
    where: Where | None = Field(default=None, description="Only passages whose metadata has these values.")
    regenerate_of: str | None = Field(
        default=None, description="The turn whose place this one takes; it and those after it are set aside."
    )


class ConversationList(BaseModel):
    """Conversations, newest first."""

    data: list[ConversationSummary]
