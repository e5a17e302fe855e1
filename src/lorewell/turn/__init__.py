"""A turn's life cycle: which books apply is asked once, then the prompt is put together.

Async, over ports: where the books are (`LoreSource`), where conversations are kept
(`Conversations`), and how the model is asked (a callable). It knows neither database nor network.
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
