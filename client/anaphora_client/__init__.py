"""Ask an Anaphora server from a program: a typed client, and what LangChain and MCP programs need.

`anaphora_client.langchain` holds a retriever and tools; it needs `langchain-core`.
"""

from anaphora_client.http import (
    AnaphoraClient,
    ApiError,
    ClientAnswer,
    CollectionRow,
    DocumentRow,
    FoundPassage,
    Message,
    Where,
)
from anaphora_client.mcp import mcp_settings

__all__ = [
    "AnaphoraClient",
    "ApiError",
    "ClientAnswer",
    "CollectionRow",
    "DocumentRow",
    "FoundPassage",
    "Message",
    "Where",
    "mcp_settings",
]
