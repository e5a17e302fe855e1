"""Lore in a chat turn: builds the request, places texts in the prompt, and checks its size.

Pure functions. `lorewell.turn` calls services and models.

>>> from lorewell.engine.tokens import counter
>>> draft = [DraftMessage(kind="input", message={"role": "user", "content": "我敲钟。"})]
>>> bell = HostBlock(sources=(Source("bell", "keyword"),), text="钟归沈七管。", position="at_depth")
>>> assemble(draft, [bell], AssembleOptions(), counter=counter()).messages[1]
{'role': 'system', 'content': '钟归沈七管。'}
"""

from lorewell.host.assemble import assemble, assemble_request
from lorewell.host.blocks import HostBlock, Source, from_selection
from lorewell.host.buckets import from_activation
from lorewell.host.budget import check_budget, measure, message_tokens, shared_prefix
from lorewell.host.draft import Part, PromptMessage
from lorewell.host.merge import merge
from lorewell.host.place import Placed, insert_note, place
from lorewell.host.query import TurnInputs, TurnQuery, capabilities, make_query
from lorewell.host.replica import from_replica
from lorewell.host.replica_query import make_replica
from lorewell.model.assemble import AssembleOptions, AssembleRequest, DraftMessage, PromptBudget
from lorewell.model.assembled import (
    AssembleResponse,
    MessageOrigin,
    Placement,
    PromptFigures,
    PromptPart,
    SharedPrefix,
)

__all__ = [
    "AssembleOptions",
    "AssembleRequest",
    "AssembleResponse",
    "DraftMessage",
    "HostBlock",
    "MessageOrigin",
    "Part",
    "Placed",
    "Placement",
    "PromptBudget",
    "PromptFigures",
    "PromptMessage",
    "PromptPart",
    "SharedPrefix",
    "Source",
    "TurnInputs",
    "TurnQuery",
    "assemble",
    "assemble_request",
    "capabilities",
    "check_budget",
    "from_activation",
    "from_replica",
    "from_selection",
    "insert_note",
    "make_query",
    "make_replica",
    "measure",
    "merge",
    "message_tokens",
    "place",
    "shared_prefix",
]
