"""Expands the macros of the texts of one scan, in the engine that the settings name."""

from __future__ import annotations

import re
from typing import Final

from lorewell.engine.sillytavern.draws import RandomDraws
from lorewell.engine.sillytavern.javascript import WHITESPACE
from lorewell.engine.sillytavern.ledger import Ledger
from lorewell.engine.sillytavern.macros import card, new_engine, old_engine
from lorewell.engine.sillytavern.macros.state import MacroState, Miss
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.warning import MacroProblem, TurnWarning, macro_problem

MAX_WARNINGS: Final = 1_000
_HINT = re.compile(r"\{\{|\\[{}]|<(?:user|bot|char|group|charifnotgroup)>", re.IGNORECASE)
_NAMES: Final = {
    "new": re.compile(rf"\{{\{{[{WHITESPACE}]*+(user|char)[{WHITESPACE}]*+\}}\}}", re.IGNORECASE),
    "old": re.compile(r"\{\{(user|char)\}\}", re.IGNORECASE),
}
_SPECIAL = re.compile(r"[\\{}<>]")
_CHARS_PER_STEP: Final = 50
_STEPS_PER_TEXT: Final = 30
_SHORT_CHARS: Final = 1_000  # searching so short a text for macros is included in other costs


def may_hold_macro(text: str) -> bool:
    """Return whether expanding macros can change a text."""
    return _HINT.search(text) is not None


class Macros:
    """Expands macros; what cannot be expanded stays as written.

    Attributes:
        state: what macros read and change.
        warnings: what macros lacked, in order.
        watches_all: whether expanding any text has effects, even one that holds no macro: the old
            engine expands the fields of the card every time.
    """

    def __init__(self, request: SillyTavernRequest, draws: RandomDraws, ledger: Ledger) -> None:
        """Bind the macros to the values of a request."""
        self.state = MacroState(request, draws, ledger.steps)
        self.warnings: list[TurnWarning] = []
        self._ledger = ledger
        self._seen: set[TurnWarning] = set()
        engine = request.settings.macro_engine
        self._expand = new_engine.expand if engine == "new" else old_engine.expand
        self._is_old = engine == "old"
        self._name = _NAMES[engine]
        values = request.macros
        self._names = {"user": values.user, "char": values.char}
        fields = [getattr(values, name) or "" for name in card.EXPANDED_FIELDS]
        rest = [self._name.sub("", text) for text in (*fields, values.chat_scenario or "")]
        self.watches_all = self._is_old and any(map(may_hold_macro, rest))
        # Names that are plain words can be put in at any time, whatever else happens.
        is_plain = all(name and not _SPECIAL.search(name) for name in self._names.values())
        self._has_plain_names = is_plain and not (self.watches_all or values.stand_ins)

    def begin(self) -> None:
        """Begin a scan: the old engine stores the chat's hash at any expansion."""
        if self._is_old:
            self.state.store_chat_hash()

    def _settle_card(self) -> None:
        """Expand the fields of the card once, if that is the same for every text."""
        if self._is_old and not self.watches_all and self.state.fields is None:
            old_engine.keep_fields(self.state)

    def find_settled(self, text: str) -> str | None:
        """Return a text whose only macros are names, expanded; None for any other text.

        Expanding it has no effect and depends on nothing that changes.
        """
        if not self.watches_all and not may_hold_macro(text):
            return text
        if not self._has_plain_names or may_hold_macro(self._name.sub("", text)):
            return None
        steps = self.state.steps
        found = self._name.findall(text)
        steps.write("macros", len(text) + sum(len(self._names[n.lower()]) for n in found))
        steps.spend("macros", len(found) + len(text) // _CHARS_PER_STEP)
        return self._name.sub(lambda match: self._names[match[1].lower()], text)

    def expand(self, text: str, entry: str | None, at: str) -> str:
        """Return a text with its macros expanded.

        Args:
            text: the text.
            entry: the entry that it belongs to.
            at: where it stands in its entry, or in the request.

        Raises:
            TooExpensiveError: macros would make more text in this turn than the steps allow.
        """
        if len(text) > _SHORT_CHARS:
            self.state.steps.spend("macros", len(text) // _CHARS_PER_STEP)
        if not self.watches_all:
            if not may_hold_macro(text):
                return text
            settled = self.find_settled(text)
            if settled is not None:
                return settled

        self.state.steps.spend("macros", _STEPS_PER_TEXT)
        self._settle_card()

        def report(miss: Miss, macro: str, span: tuple[int, int] | None) -> None:
            missing = miss.name or None
            warning = TurnWarning(
                miss.problem,
                macro_problem(miss.problem, macro, missing),
                entry=entry,
                at=at,
                macro=macro,
                span=span,
                missing=missing,
            )
            self._warn(miss.problem, warning)

        return self._expand(text, self.state, report)

    def _warn(self, problem: MacroProblem, warning: TurnWarning) -> None:
        """Record a warning, once."""
        if warning in self._seen or len(self._seen) >= MAX_WARNINGS:
            return
        self._seen.add(warning)
        self.state.steps.spend("macros", 1)
        self.warnings.append(warning)
        self._ledger.add(problem, warning.entry, macro=warning)
