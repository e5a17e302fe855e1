"""What differs between releases of SillyTavern: a row for each.

Source: docs/rules/sillytavern.md §1.1 and §8.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lorewell.engine.tokens import BUNDLED
from lorewell.model.activate import (
    Release,
    SillyTavernScene,
    SillyTavernSettings,
    TokenCounting,
)


class Profile(NamedTuple):
    """What a release implies where the settings leave it open.

    Attributes:
        policy_version: the version of the rules that answers report.
        token_counting: how texts are counted.
    """

    policy_version: str
    token_counting: TokenCounting


PROFILES: Final[Mapping[Release, Profile]] = {
    "1.19": Profile("sillytavern/1.19.0", "sillytavern-1.19"),
    "1.18": Profile("sillytavern/1.18.0", "sillytavern-1.18"),
}


class Surcharge(NamedTuple):
    """What each counted text costs on top of its own tokens.

    Attributes:
        tokens: for any text but "".
        before_blank: more, if the text begins with a blank.
    """

    tokens: int = 0
    before_blank: int = 0


_OPENAI: Final[Mapping[str, Surcharge]] = {
    **dict.fromkeys(BUNDLED, Surcharge(6)),
    "gpt-3.5-turbo-0301": Surcharge(16),
}
# By tokenizer; the texts of others cost their own tokens.
_SURCHARGES: Final[Mapping[TokenCounting, Mapping[str, Surcharge]]] = {
    "plain": {},
    "sillytavern-1.19": _OPENAI,
    # Measured. Where it differs by one from text to text, this is the larger number.
    "sillytavern-1.18": {
        **_OPENAI,
        "claude": Surcharge(3, before_blank=1),
        "gemma": Surcharge(1),
        "jamba": Surcharge(2),
        "llama": Surcharge(2),
        "llama3": Surcharge(3),
        "mistral": Surcharge(2),
        "yi": Surcharge(2),
    },
}


def profile_of(settings: SillyTavernSettings) -> Profile:
    """Return the profile of the release whose rules apply."""
    return PROFILES[settings.version]


def with_release(settings: SillyTavernSettings) -> SillyTavernSettings:
    """Return the settings with what their release implies, so that a later default changes nothing.

    >>> with_release(SillyTavernSettings()).token_counting
    'sillytavern-1.19'
    """
    counting = settings.token_counting or profile_of(settings).token_counting
    return settings.model_copy(update={"version": settings.version, "token_counting": counting})


def surcharge_of(scene: SillyTavernScene, tokenizer: str) -> Surcharge:
    """Return what a counted text costs on top: as given, as chosen, or as the release counts.

    Args:
        scene: its `message_tokens` come first, then `token_counting`, then `version`.
        tokenizer: the name of the tokenizer; one of the caller's own costs nothing more.

    >>> surcharge_of(SillyTavernScene(context_tokens=100), "cl100k_base").tokens
    6
    """
    if scene.message_tokens is not None:
        return Surcharge(scene.message_tokens)
    counting = scene.settings.token_counting or profile_of(scene.settings).token_counting
    return _SURCHARGES[counting].get(tokenizer, Surcharge())
