"""What a client of the gateway says about a turn, from all its layers."""

from __future__ import annotations

from dataclasses import dataclass

from lorewell.model.parse import parse_model
from lorewell.model.scene import Scene, merge_scenes

MEMBER = "lorewell"
"""The member of a request's body that holds its scene."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientScene:
    """What a client says about a turn, by where it says so.

    Attributes:
        member: the member `lorewell` of the body.
        control: the control line.
        char, user: the names of the headers.
    """

    member: Scene | None = None
    control: Scene | None = None
    char: str | None = None
    user: str | None = None

    def merged(self, bound: Scene | None = None) -> Scene | None:
        """Return the scene of the turn: each value from the highest layer that gives it.

        The layers, highest first: the member `lorewell`, the control line, the headers, the
        prompt's binding. What no layer gives comes from the messages, the settings and the
        defaults of the policy.

        Args:
            bound: the scene of the prompt's binding.
        """
        names = {"char": self.char, "user": self.user}
        given = {name: value for name, value in names.items() if value is not None}
        headers = parse_model(Scene, {"names": given}) if given else None
        return merge_scenes(self.member, self.control, headers, bound)

    def speakers(self) -> Scene | None:
        """Return the scene whose names also name the lines of the chat.

        Names of headers do not: a client that sends them chose whether its messages have names.
        """
        return merge_scenes(self.member, self.control)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTurn:
    """What is known about a turn besides its messages.

    Attributes:
        scene: the scene, from all layers.
        speakers: the scene whose names also name the lines of the chat.
        conversation_id: the conversation.
        seed: the seed, unless the scene gives one.
    """

    scene: Scene | None
    speakers: Scene | None
    conversation_id: str
    seed: str
