"""The contract: what books, requests and answers look like. Shared by every surface."""

from lorewell.model.book import BookCreate, content_hash
from lorewell.model.condition import Condition
from lorewell.model.decision import Block, Decision, Facts, Reason, SelectResponse, SnapshotItem
from lorewell.model.entry import POSITIONS, Entry, Position
from lorewell.model.imports import ImportReport
from lorewell.model.select import BookRef, Message, PlacementCapabilities, SelectRequest
from lorewell.model.sillytavern import SillyTavernBlock

__all__ = [
    "POSITIONS",
    "Block",
    "BookCreate",
    "BookRef",
    "Condition",
    "Decision",
    "Entry",
    "Facts",
    "ImportReport",
    "Message",
    "PlacementCapabilities",
    "Position",
    "Reason",
    "SelectRequest",
    "SelectResponse",
    "SillyTavernBlock",
    "SnapshotItem",
    "content_hash",
]
