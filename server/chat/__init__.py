"""The chat service: the one door to collections, turns, conversations, feedback and jobs.

The HTTP API, the page and the terminal chat all go through it. `open_service(settings)` builds one;
the events of a turn and every type that crosses the door are exported here.
"""

from rewriter.conversation import Message
from server.access import Principal
from server.chat.errors import (
    ChatError,
    Conflict,
    Forbidden,
    InvalidRequest,
    LimitReached,
    NotFound,
    QueueFull,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from server.chat.service import ChatService, open_service
from server.chat.turns import RunningTurn
from server.chat.types import (
    CollectionSummary,
    DocumentSummary,
    DocumentText,
    KeySummary,
    NewKey,
    Readiness,
    SearchResult,
    SectionView,
    TurnRequest,
)
from server.settings import Settings
from server.store.records import (
    ConversationDetail,
    ConversationSummary,
    Feedback,
    FeedbackRecord,
    FileResult,
    Job,
    JobState,
    Rating,
    StoredTurn,
    Trace,
    TraceStep,
    TurnStatus,
)
from server.turn.events import (
    CitationEvent,
    DoneEvent,
    ErrorEvent,
    Event,
    Evidence,
    EvidenceEvent,
    Leg,
    NearestEvent,
    Quotation,
    RewriteEvent,
    SupportEvent,
    TokenEvent,
)

__all__ = [
    "ChatError",
    "ChatService",
    "CitationEvent",
    "CollectionSummary",
    "Conflict",
    "ConversationDetail",
    "ConversationSummary",
    "DocumentSummary",
    "DocumentText",
    "DoneEvent",
    "ErrorEvent",
    "Event",
    "Evidence",
    "EvidenceEvent",
    "Feedback",
    "FeedbackRecord",
    "FileResult",
    "Forbidden",
    "InvalidRequest",
    "Job",
    "JobState",
    "KeySummary",
    "Leg",
    "LimitReached",
    "Message",
    "NearestEvent",
    "NewKey",
    "NotFound",
    "Principal",
    "QueueFull",
    "Quotation",
    "Rating",
    "Readiness",
    "RewriteEvent",
    "RunningTurn",
    "SearchResult",
    "SectionView",
    "Settings",
    "StoredTurn",
    "SupportEvent",
    "TokenEvent",
    "TooLarge",
    "TooManyRequests",
    "Trace",
    "TraceStep",
    "TurnRequest",
    "TurnStatus",
    "Unavailable",
    "open_service",
]
