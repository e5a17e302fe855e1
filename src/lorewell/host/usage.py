"""Applies the settings of a prompt to the requests of its turns.

Source: docs/rules/host.md §5.4.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from lorewell.model import SelectRequest
from lorewell.model.activate import SillyTavernScene, SillyTavernSettings
from lorewell.model.prompt_settings import NativeDefaults, SillyTavernDefaults

Selection = TypeVar("Selection", bound=SelectRequest)
Scene = TypeVar("Scene", bound=SillyTavernScene)

_CONTEXT_TOKENS: Final = 8_192
_WHOLE_PERCENT: Final = 100


def with_native(request: Selection, settings: NativeDefaults) -> Selection:
    """Return the request with the settings where it gives no value of its own."""
    given = settings.given().items()
    missing = {name: each for name, each in given if name not in request.model_fields_set}
    return request.model_copy(update=missing)


def with_sillytavern(request: Scene, settings: SillyTavernDefaults) -> Scene:
    """Return the request with the settings where it gives no value of its own."""
    taken = request.model_fields_set | request.settings.model_fields_set
    missing = {name: each for name, each in settings.given().items() if name not in taken}
    members = {name: missing[name] for name in type(request).model_fields if name in missing}
    own = {name: each for name, each in missing.items() if name in SillyTavernSettings.model_fields}
    if own:
        members["settings"] = request.settings.model_copy(update=own)
    return request.model_copy(update=members)


class SillyTavernUse(NamedTuple):
    """How a turn of a chat uses its books: its settings, and the context they are a share of."""

    settings: SillyTavernSettings
    context_tokens: int


def sillytavern_use(
    settings: SillyTavernDefaults, *, token_budget: int, context_window: int | None
) -> SillyTavernUse:
    """Return the settings of a turn of a chat.

    Its budget is the given one, unless the settings have a budget or a cap of their own.

    Args:
        settings: of the prompt.
        token_budget: of the service or host.
        context_window: of the model, if it is known.
    """
    context_tokens = settings.context_tokens or context_window or max(_CONTEXT_TOKENS, token_budget)
    own = {n: each for n, each in settings.given().items() if n in SillyTavernSettings.model_fields}
    if "world_info_budget" not in own:
        # The whole context up to the cap, since a cap of 0 would mean no cap.
        budget = {
            "world_info_budget": _WHOLE_PERCENT if token_budget else 0,
            "world_info_budget_cap": token_budget,
        }
        own = budget | own
    return SillyTavernUse(SillyTavernSettings(**own), context_tokens)
