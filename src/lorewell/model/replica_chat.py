"""What a client says on the socket of SillyTavern_replica (docs/rules/replica.md §1.1, §6.2)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from lorewell.model.replica import ReplicaRequest


class ReplicaFrame(ReplicaRequest):
    """One turn of a chat: a request, and what its reply is made with.

    What the protocol leaves open may hold anything. `apiConfig` is no member on purpose: an address
    and a key that a client names are never used.

    Attributes:
        current_role: the character, by name or as an object with the texts of its card.
        preset_config: taken where it is a text.
        stream: false asks for the reply in one chunk.
    """

    current_role: Any = Field(default=None, alias="currentRole")
    preset_config: Any = Field(default=None, alias="presetConfig")
    stream: Any = True
