"""The books that a prompt uses."""

from __future__ import annotations

from dataclasses import dataclass

from lorewell.model import Policy
from lorewell.model.binding import BoundBook
from lorewell.model.prompt_settings import PromptSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPrompt:
    """A prompt with books: their policy, the revisions in use, in order, and its settings."""

    prompt_id: str
    policy: Policy
    books: tuple[BoundBook, ...]
    settings: PromptSettings
