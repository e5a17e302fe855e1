"""A book as a policy reads it: the form that all rules of lint share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lorewell.engine.conditions import Expression
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import TokenCounter
from lorewell.jsregex import Pattern
from lorewell.model import BookCreate, Condition, Entry
from lorewell.model.binding import Policy
from lorewell.model.entry import Logic

CERTAIN: Final = 100  # percent


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSettings:
    """What a book is judged for.

    Attributes:
        policy: the policy that the book runs under.
        scan_depth: messages that are scanned.
        recursion: whether contents can wake entries.
        budget_tokens: the token budget of all entries.
        constant_tokens: the tokens that constants may take.
        case, whole_words: what holds for entries that leave it to the settings.
        state: the values that conditions read; None if unknown.
        variables: names of the substitutions that have a value; None if unknown.
    """

    policy: Policy
    scan_depth: int
    recursion: bool
    budget_tokens: int
    constant_tokens: int
    case: bool = False
    whole_words: bool = False
    state: Mapping[str, object] | None = None
    variables: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedKey:
    """A key.

    Attributes:
        text: as written.
        field: `keys` or `secondary_keys`.
        index: its place there; None if the policy reads another list than the entry shows.
        regex: the pattern of a regex key.
        wanted: the text that is searched, in the form for comparison; "" if there is none.
        alone: whether a hit must stand alone.
        has_macro: whether it holds a macro.
    """

    text: str
    field: str
    index: int | None
    regex: Pattern | None = None
    wanted: str = ""
    alone: bool = False
    has_macro: bool = False

    @property
    def at(self) -> str:
        """The pointer to the key, from its entry."""
        return self.field if self.index is None else f"{self.field}/{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEntry:
    """An enabled entry as its policy reads it.

    Attributes:
        index: its place in the book.
        spec: the stored entry.
        always: whether it needs no key.
        keys, secondary: its keys; the secondary ones only if they count.
        logic: of the secondary keys; None if no text can satisfy it.
        words: the keys of its key expression that make it hold.
        other_trigger: whether something else than keys can trigger it.
        case, whole_words: how its plain keys match.
        probability: in percent.
        scan_depth: its own; None follows the settings.
        fed: whether contents of other entries can wake it.
        feeds: whether its content can wake others.
        level: recursion that it waits for; 0 for none.
        groups: names of its groups.
        limited: whether something besides keys restricts it: conditions, filters, timers, chance.
        blocked: whether it is never selected for a reason with a code of its own.
        outlet: the name of its outlet; None if it has another position.
        has_place: whether its position exists.
        ignored: rules that the policy ignores.
        sticky, cooldown, delay: in messages; 0 is off.
        overrides: whether it wins its group by order.
        weight: its weight in its group's draw.
        requires: ids of entries that come with it.
        conditions: its conditions.
        texts: those of its conditions as text that can be parsed, with their places.
    """

    index: int
    spec: Entry
    always: bool
    keys: tuple[JudgedKey, ...]
    secondary: tuple[JudgedKey, ...] = ()
    logic: Logic | None = "and_any"
    words: tuple[str, ...] = ()
    other_trigger: bool = False
    case: bool = False
    whole_words: bool = False
    probability: float = CERTAIN
    scan_depth: int | None = None
    fed: bool = False
    feeds: bool = False
    level: float = 0
    groups: tuple[str, ...] = ()
    limited: bool = False
    blocked: bool = False
    outlet: str | None = None
    has_place: bool = True
    ignored: tuple[str, ...] = ()
    sticky: float = 0
    cooldown: float = 0
    delay: float = 0
    overrides: bool = False
    weight: float = 100
    requires: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    texts: tuple[tuple[int, Expression], ...] = ()

    @property
    def id(self) -> str:
        """The entry's id."""
        return self.spec.id

    @property
    def content(self) -> str:
        """The entry's content."""
        return self.spec.content

    @property
    def plain_keys(self) -> tuple[JudgedKey, ...]:
        """The primary keys that are searched as text."""
        return tuple(key for key in self.keys if key.wanted)


# Returns whether a hit stands alone, given the text, its start, its end and the step budget.
Borders = Callable[[str, int, int, Steps], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBook:
    """A book as its policy reads it.

    Attributes:
        book: the stored book.
        settings: what it is judged for.
        entries: the enabled ones, in stored order.
        fold, compose: return a text in the form for comparison without case, and with case.
        borders: checks whether a hit stands alone.
        steps: the step budget.
        counter: counts tokens.
    """

    book: BookCreate
    settings: LintSettings
    entries: Sequence[JudgedEntry]
    fold: Callable[[str], str]
    compose: Callable[[str], str]
    borders: Borders
    steps: Steps
    counter: TokenCounter
