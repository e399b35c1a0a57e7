"""The chat service: the one door to collections, turns, conversations, feedback and jobs.

The HTTP API, the page and the terminal chat all go through it. `open_service(settings)` builds one;
the events of a turn and every type that crosses the door are exported here.
"""

from index.documents import Where as Where
from rewriter.protocol import Message as Message
from server.access import Action as Action
from server.access import Principal as Principal
from server.chat.admin import Readiness as Readiness
from server.chat.base import ChatError as ChatError
from server.chat.base import Conflict as Conflict
from server.chat.base import Forbidden as Forbidden
from server.chat.base import InvalidRequest as InvalidRequest
from server.chat.base import NotFound as NotFound
from server.chat.base import Unavailable as Unavailable
from server.chat.conversations import ReplayedTurn as ReplayedTurn
from server.chat.documents import DocumentText as DocumentText
from server.chat.documents import SectionView as SectionView
from server.chat.loaded_models import CollectionSummary as CollectionSummary
from server.chat.running_turn import TurnRequest as TurnRequest
from server.chat.service import ChatService as ChatService
from server.chat.service import open_service as open_service
from server.replay import ReplayChanges as ReplayChanges
from server.runs import RunGroup as RunGroup
from server.store.records import ConversationDetail as ConversationDetail
from server.store.records import ConversationSummary as ConversationSummary
from server.store.records import Feedback as Feedback
from server.store.records import Job as Job
from server.store.records import Rating as Rating
from server.store.records import StoredTurn as StoredTurn
from server.store.records import Trace as Trace
from server.tracing import calls as calls
from server.tracing import differences as differences
from server.turn.citations import reading_numbers as reading_numbers
from server.turn.events import CitationEvent as CitationEvent
from server.turn.events import DoneEvent as DoneEvent
from server.turn.events import ErrorEvent as ErrorEvent
from server.turn.events import Event as Event
from server.turn.events import Evidence as Evidence
from server.turn.events import EvidenceEvent as EvidenceEvent
from server.turn.events import FoldEvent as FoldEvent
from server.turn.events import NearestEvent as NearestEvent
from server.turn.events import PageBox as PageBox
from server.turn.events import Quotation as Quotation
from server.turn.events import RewriteEvent as RewriteEvent
from server.turn.events import StepEvent as StepEvent
from server.turn.events import SupportEvent as SupportEvent
from server.turn.events import TokenEvent as TokenEvent
