"""The life cycle of a turn: select the lore once, then assemble the prompt.

Async, over ports: the source of the books (`LoreSource`), the store of conversations
(`Conversations`), and a callable for the model. It uses neither a database nor the network.
"""

from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn.asking import TurnLore
from lorewell.turn.config import read_config
from lorewell.turn.conversations import FileConversations, MemoryConversations
from lorewell.turn.errors import TurnError
from lorewell.turn.files import FileLore
from lorewell.turn.inputs import TurnInput
from lorewell.turn.ports import ConversationKey, ConversationRecord, Conversations, LoreSource
from lorewell.turn.trace import TurnTrace
from lorewell.turn.turn import PreparedTurn, Turn, TurnHost

__all__ = [
    "ConversationKey",
    "ConversationRecord",
    "Conversations",
    "FileConversations",
    "FileLore",
    "LoreSource",
    "MemoryConversations",
    "PreparedTurn",
    "Turn",
    "TurnError",
    "TurnHost",
    "TurnInput",
    "TurnLore",
    "TurnTrace",
    "WorldbookConfig",
    "read_config",
]
