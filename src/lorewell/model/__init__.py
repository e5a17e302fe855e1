"""The contract: books, requests and responses. Service, CLI, client and library share it."""

from lorewell.model.access import ApiKey, CreatedKey, KeyList, KeyRequest, Scope, TenantList
from lorewell.model.activated import ReplayResponse, SillyTavernResponse
from lorewell.model.assemble import AssembleRequest
from lorewell.model.assembled import AssembleResponse
from lorewell.model.binding import Binding, BindingSet, BindingsPut, Policy, ResolvedBindings
from lorewell.model.book import BookCreate, content_hash
from lorewell.model.condition import Condition
from lorewell.model.condition_trial import ConditionTrial, ConditionTried
from lorewell.model.conversation import (
    ActivatePreview,
    ActivateRequest,
    Conversation,
    ConversationInfo,
    ConversationPage,
    KeptState,
    ReplayRequest,
)
from lorewell.model.decision import Block, Decision, Facts, Reason, SelectResponse, SnapshotItem
from lorewell.model.entry import POSITIONS, Entry, Position
from lorewell.model.imports import ImportReport
from lorewell.model.lint import LintAnswer, LintRequest
from lorewell.model.preview import ChangedBook, InlineBook, PreviewRequest
from lorewell.model.records import (
    BookDiff,
    BookHead,
    BookPage,
    ChangedEntry,
    CreatedBook,
    CreateResult,
    ImportBatch,
    ImportPreview,
    NativeReport,
    Published,
    PublishRequest,
    RestoreRequest,
    Revision,
    RevisionInfo,
    RevisionPage,
    StoredBook,
)
from lorewell.model.replica import ReplicaPreview, ReplicaRequest, ReplicaResponse
from lorewell.model.scene import Scene
from lorewell.model.search import (
    SearchRequest,
    SearchResponse,
    SearchResult,
    TokenCountRequest,
    TokenCounts,
)
from lorewell.model.select import BookRef, Message, PlacementCapabilities, SelectRequest
from lorewell.model.sillytavern import SillyTavernBlock

__all__ = [
    "POSITIONS",
    "ActivatePreview",
    "ActivateRequest",
    "ApiKey",
    "AssembleRequest",
    "AssembleResponse",
    "Binding",
    "BindingSet",
    "BindingsPut",
    "Block",
    "BookCreate",
    "BookDiff",
    "BookHead",
    "BookPage",
    "BookRef",
    "ChangedBook",
    "ChangedEntry",
    "Condition",
    "ConditionTrial",
    "ConditionTried",
    "Conversation",
    "ConversationInfo",
    "ConversationPage",
    "CreateResult",
    "CreatedBook",
    "CreatedKey",
    "Decision",
    "Entry",
    "Facts",
    "ImportBatch",
    "ImportPreview",
    "ImportReport",
    "InlineBook",
    "KeptState",
    "KeyList",
    "KeyRequest",
    "LintAnswer",
    "LintRequest",
    "Message",
    "NativeReport",
    "PlacementCapabilities",
    "Policy",
    "Position",
    "PreviewRequest",
    "PublishRequest",
    "Published",
    "Reason",
    "ReplayRequest",
    "ReplayResponse",
    "ReplicaPreview",
    "ReplicaRequest",
    "ReplicaResponse",
    "ResolvedBindings",
    "RestoreRequest",
    "Revision",
    "RevisionInfo",
    "RevisionPage",
    "Scene",
    "Scope",
    "SearchRequest",
    "SearchResponse",
    "SearchResult",
    "SelectRequest",
    "SelectResponse",
    "SillyTavernBlock",
    "SillyTavernResponse",
    "SnapshotItem",
    "StoredBook",
    "TenantList",
    "TokenCountRequest",
    "TokenCounts",
    "content_hash",
]
