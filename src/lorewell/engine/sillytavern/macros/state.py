"""What macros read and change during one scan (docs/rules/sillytavern-macros.md §7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from lorewell.engine.sillytavern.draws import RandomDraws
from lorewell.engine.sillytavern.hashing import cyrb53
from lorewell.engine.sillytavern.macros.variables import VariableStore
from lorewell.engine.steps import Steps
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.warning import MacroProblem

OUTLET: Final = "customWIOutlet_"  # SillyTavern's name of the prompt that holds an outlet
_UNITS_PER_STEP: Final = 6

_T = TypeVar("_T")


class MacroFailedError(Exception):
    """A macro cannot be run: it stays as written."""


class Miss(NamedTuple):
    """Something that a macro lacked.

    Attributes:
        problem: what is wrong.
        name: the value that is missing, as in the request; "" where none is.
    """

    problem: MacroProblem
    name: str


# Called for a macro that lacked something: with what that is, the macro's name, and its span
# in the text as written, if it stands there.
Report = Callable[[Miss, str, tuple[int, int] | None], None]


class MacroState:
    """The values that a request gives, and what macros have changed so far.

    Attributes:
        values: the request's macro values.
        host: the state of the chat program in them.
        variables: both scopes, updated by macros.
        draws: the random numbers of the scan.
        steps: the step budget of the scan.
        moment: the clock; None if it is not given.
        chat_hash: the stored hash of the chat, None until a macro stores it.
        banned: words that macros banned, in order.
        extra: texts of further macros, by name in lower case.
        fields: the fields of the card as the old engine expands them, with what their macros
            missed; None where each text has to expand them anew.
        misses: what the macros that ran since the last report lacked.
    """

    def __init__(self, request: SillyTavernRequest, draws: RandomDraws, steps: Steps) -> None:
        """Start with the values of a request."""
        self.values = request.macros
        self.host = request.macros.host
        self.variables = VariableStore(request.variables, steps)
        self.draws = draws
        self.steps = steps
        self.chat_hash = request.macros.chat_hash
        self.banned: list[str] = []
        self.extra = {name.lower(): text for name, text in request.macros.extra.items()}
        self.fields: dict[str, tuple[str, list[Miss]]] | None = None
        self.misses: list[Miss] = []
        self.moment = request.macros.moment
        self._context_tokens = request.context_tokens
        self._prompts = {prompt.name: prompt.value for prompt in request.prompts}

    def given(self, name: str, value: _T | None, otherwise: _T) -> _T:
        """Return a value, or note that it is not given."""
        if value is None:
            self.misses.append(Miss("value_missing", name))
            return otherwise
        return value

    def host_text(self, name: str) -> str:
        """Return a text of the chat program."""
        text: str | None = getattr(self.host, name)
        return self.given(f"host.{name}", text, "")

    def card_text(self, name: str) -> str:
        """Return a text of the card, or of the chat, as it is."""
        text: str | None = getattr(self.values, name)
        if text == "" and name not in self.values.model_fields_set:
            text = None
        return self.given(name, text, "")

    def name_of(self, who: str) -> str:
        """Return the name of `user` or `char`."""
        name: str = getattr(self.values, who)
        if who in self.values.stand_ins:
            self.given(who, None, "")
            return name
        return self.given(who, name or None, "")

    @property
    def context_tokens(self) -> int:
        """The size of the model's context."""
        size = self.host.max_context_tokens
        return self._context_tokens if size is None else size

    def outlet(self, name: str) -> str:
        """Return the text of an outlet before this scan."""
        return self.given(f"prompts.{OUTLET}{name}", self._prompts.get(OUTLET + name), "")

    def store_chat_hash(self) -> int:
        """Return the hash of the chat, 0 if it has no id, and store it."""
        if not self.chat_hash:
            identity = self.values.main_chat_id or self.values.chat_id
            self.chat_hash = self.hash_of(identity) if identity else 0
        return self.chat_hash

    def hash_of(self, text: str) -> int:
        """Return the hash of a text, for picks."""
        self.steps.spend("macros", 1 + len(text) // _UNITS_PER_STEP)
        return cyrb53(text)
