"""The chat service: the one door to collections, turns, conversations, feedback and jobs.

The HTTP API, the page and the terminal chat all go through it. `open_service(settings)` builds one;
the events of a turn and every type that crosses the door are exported here.
"""

from rewriter.protocol import Message as Message
from server.access import Action as Action
from server.access import Principal as Principal
from server.chat.admin import KeySummary as KeySummary
from server.chat.admin import NewKey as NewKey
from server.chat.admin import Readiness as Readiness
from server.chat.conversations import NewShare as NewShare
from server.chat.documents import LEAST_WIDTH as LEAST_WIDTH
from server.chat.documents import MOST_WIDTH as MOST_WIDTH
from server.chat.documents import DocumentSummary as DocumentSummary
from server.chat.documents import DocumentText as DocumentText
from server.chat.documents import PassagePage as PassagePage
from server.chat.documents import SectionView as SectionView
from server.chat.documents import Suggestion as Suggestion
from server.chat.error_mapping import ChatError as ChatError
from server.chat.error_mapping import Conflict as Conflict
from server.chat.error_mapping import Forbidden as Forbidden
from server.chat.error_mapping import InvalidRequest as InvalidRequest
from server.chat.error_mapping import LimitReached as LimitReached
from server.chat.error_mapping import NotFound as NotFound
from server.chat.error_mapping import QueueFull as QueueFull
from server.chat.error_mapping import TooLarge as TooLarge
from server.chat.error_mapping import TooManyRequests as TooManyRequests
from server.chat.error_mapping import Unavailable as Unavailable
from server.chat.loaded_models import CollectionSummary as CollectionSummary
from server.chat.reviews import NewReview as NewReview
from server.chat.reviews import ReviewDetail as ReviewDetail
from server.chat.reviews import ReviewPage as ReviewPage
from server.chat.reviews import Statistics as Statistics
from server.chat.running_turn import MAX_HISTORY_MESSAGES as MAX_HISTORY_MESSAGES
from server.chat.running_turn import RunningTurn as RunningTurn
from server.chat.running_turn import TurnRequest as TurnRequest
from server.chat.service import ChatService as ChatService
from server.chat.service import open_service as open_service
from server.chat.turns import ReplayedTurn as ReplayedTurn
from server.chat.turns import SearchResult as SearchResult
from server.replay import ReplayChanges as ReplayChanges
from server.runs import RunDetail as RunDetail
from server.runs import RunGroup as RunGroup
from server.runs import RunSummary as RunSummary
from server.runs import TrainedGroup as TrainedGroup
from server.settings import Settings as Settings
from server.store.records import ConversationDetail as ConversationDetail
from server.store.records import ConversationSummary as ConversationSummary
from server.store.records import Feedback as Feedback
from server.store.records import FeedbackRecord as FeedbackRecord
from server.store.records import FileResult as FileResult
from server.store.records import Job as Job
from server.store.records import JobState as JobState
from server.store.records import Rating as Rating
from server.store.records import Share as Share
from server.store.records import StoredTurn as StoredTurn
from server.store.records import Trace as Trace
from server.store.records import TraceStep as TraceStep
from server.store.records import TurnStatus as TurnStatus
from server.store.reviewed import Doubt as Doubt
from server.store.reviewed import ReviewState as ReviewState
from server.traces import calls
from server.traces import differences as differences
from server.turn.events import CitationEvent as CitationEvent
from server.turn.events import DoneEvent as DoneEvent
from server.turn.events import ErrorEvent as ErrorEvent
from server.turn.events import Event as Event
from server.turn.events import Evidence as Evidence
from server.turn.events import EvidenceEvent as EvidenceEvent
from server.turn.events import NearestEvent as NearestEvent
from server.turn.events import PageBox as PageBox
from server.turn.events import QueryVariant as QueryVariant
from server.turn.events import Quotation as Quotation
from server.turn.events import RewriteEvent as RewriteEvent
from server.turn.events import StepEvent as StepEvent
from server.turn.events import SupportEvent as SupportEvent
from server.turn.events import TokenEvent as TokenEvent

trace_calls = calls
