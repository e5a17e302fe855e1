"""Messages of clients on SillyTavern_replica's chat socket (docs/rules/replica.md §1.1, §6.2)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from lorewell.model.replica import ReplicaRequest


class ReplicaFrame(ReplicaRequest):
    """A turn of a chat: a request, and the input of its reply.

    Members that the protocol leaves open accept any value. `apiConfig` is left out on purpose:
    addresses and keys sent by a client are never used.

    Attributes:
        current_role: the character: its name, or an object with the texts of its card.
        preset_config: used if it is a text.
        stream: false requests the reply in one chunk.
    """

    current_role: Any = Field(default=None, alias="currentRole")
    preset_config: Any = Field(default=None, alias="presetConfig")
    stream: Any = True
