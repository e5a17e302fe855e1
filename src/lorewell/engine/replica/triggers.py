"""The triggers of an entry, in their newer and their older form.

Source: docs/rules/replica.md §1.4, §1.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, cast

from lorewell.engine.conditions.truth import as_text
from lorewell.engine.replica.values import MAX_ITEMS, Raw, as_flag, as_integer, as_labels, as_number

MAX_CONDITIONS: Final = 50  # §4.3
_MAX_READ: Final = 1_000  # conditions that are read, even if too many
KINDS: Final = ("constant", "keyword", "condition", "rag", "logic")

LogicOperator = Literal["equals", "not_equals", "contains", "not_contains", "greater", "less"]
_LOGIC_OPERATORS: Final = frozenset(
    {"equals", "not_equals", "contains", "not_contains", "greater", "less"}
)
# The words of the program's editor (docs/rules/formats.md §12).
_OPERATOR_WORDS: Final = {
    "等于": "=",
    "大于": ">",
    "小于": "<",
    "不小于": ">=",
    "不大于": "<=",
    "不等于": "!=",
}
# How secondary keys decide (§4.2), and the same by SillyTavern's number (§6.4).
ANY, ALL, NONE, NOT_ALL = range(4)
LOGIC_FROM_SILLYTAVERN: Final[Mapping[int, int]] = {0: ANY, 1: NOT_ALL, 2: NONE, 3: ALL}
_LOGICS: Final = (ANY, ALL, NONE, NOT_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordTrigger:
    """Primary keys, and secondary keys with their logic (`ANY`, `ALL`, `NONE` or `NOT_ALL`)."""

    keys: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    logic: int = ANY
    case_sensitive: bool = False
    whole_words: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RagTrigger:
    """The minimum similarity of an entry to the query, and the maximum number of entries."""

    threshold: float = 0.75
    top_k: int = 5
    query_template: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicTrigger:
    """Compares a field with another field or with a value (§7.3)."""

    variable: str
    operator: LogicOperator
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers:
    """The enabled triggers; None and False are off.

    Attributes:
        conditions: texts of conditions that must all hold.
        broken: descriptions of the invalid triggers, which are off.
    """

    constant: bool = False
    keyword: KeywordTrigger | None = None
    conditions: tuple[str, ...] | None = None
    rag: RagTrigger | None = None
    logic: LogicTrigger | None = None
    broken: tuple[str, ...] = field(default=())


class _BrokenError(Exception):
    """A trigger is not well-formed."""


def derive_config(raw: Mapping[str, Raw]) -> dict[str, Raw]:
    """Derive the `trigger_config` of an entry without one from its older members.

    Source: docs/rules/replica.md §1.4, §1.5.
    """
    kind = raw.get("activationType")
    constant = kind == "permanent" or as_flag(raw.get("constant"))
    keys = {
        name: raw[name]
        for name in ("key", "keysecondary", "selective", "selectiveLogic")
        if raw.get(name) is not None
    }
    switches = {name: as_flag(raw.get(name)) for name in ("caseSensitive", "matchWholeWords")}
    own: Raw = raw.get("ragConfig")
    rag = own if isinstance(own, Mapping) else {}
    threshold, most = as_number(rag.get("threshold")), as_integer(rag.get("maxEntries"))
    triggers: dict[str, Raw] = {
        "constant": [constant, None],
        "keyword": [not constant and kind not in ("rag", "logic"), {"key": [], **keys, **switches}],
        "condition": [False, {"conditions": []}],
        "rag": [
            not constant and kind == "rag",
            {
                "threshold": 0.7 if threshold is None else threshold,
                "top_k": 5 if most is None else most,
                "query_template": None,
            },
        ],
    }
    if kind == "logic" and not constant:
        triggers["logic"] = [True, raw.get("logicExpression")]
    return {"triggers": triggers}


def read_triggers(config: Mapping[str, Raw]) -> Triggers:
    """Read the triggers of a `trigger_config`; malformed ones are off."""
    broken: list[str] = []
    pairs = config.get("triggers")
    if not isinstance(pairs, Mapping):
        return Triggers(broken=("there are no triggers",))

    def read(kind: str, reader: Callable[[Mapping[str, Any]], _Made]) -> _Made | None:
        try:
            settings = _switched_on(pairs.get(kind))
            return None if settings is None else reader(settings)
        except _BrokenError:
            broken.append(f"{kind} is not a switch with settings")
            return None

    return Triggers(
        constant=read("constant", lambda _: True) is True,
        keyword=read("keyword", _keyword),
        conditions=read("condition", _conditions),
        rag=read("rag", _rag),
        logic=read("logic", _logic),
        broken=tuple(broken),
    )


_Made = TypeVar("_Made")


def _switched_on(pair: Raw) -> Mapping[str, Any] | None:
    """Return the settings of an enabled trigger, None if it is off."""
    if pair is None:
        return None
    if not isinstance(pair, list) or not pair or not isinstance(pair[0], bool):
        raise _BrokenError
    settings = pair[1] if len(pair) > 1 and pair[1] is not None else {}
    if not pair[0]:
        return None
    if not isinstance(settings, Mapping):
        raise _BrokenError
    return settings


def _keyword(settings: Mapping[str, Any]) -> KeywordTrigger:
    logic = as_integer(settings.get("selectiveLogic", 0))
    return KeywordTrigger(
        keys=_keys(settings.get("key")),
        secondary=_keys(settings.get("keysecondary"))
        if as_flag(settings.get("selective"), default=True)
        else (),
        logic=logic if logic in _LOGICS and logic is not None else ANY,
        case_sensitive=as_flag(settings.get("caseSensitive")),
        whole_words=as_flag(settings.get("matchWholeWords")),
    )


def _keys(value: Raw) -> tuple[str, ...]:
    """Return the keys of a list as written, or those of a comma list."""
    if isinstance(value, str):
        return as_labels(value)
    if value is not None and not isinstance(value, list):
        raise _BrokenError
    return tuple(item for item in (value or ())[:MAX_ITEMS] if isinstance(item, str))


def _conditions(settings: Mapping[str, Any]) -> tuple[str, ...]:
    listed = settings.get("conditions")
    if listed is None:
        return (_triple(settings),) if "variable_a" in settings else ()
    if not isinstance(listed, list):
        raise _BrokenError
    return tuple(map(_condition_text, listed[:_MAX_READ]))


def _condition_text(item: Raw) -> str:
    """Return the text of a condition; anything else becomes JSON, which is not a valid one."""
    if isinstance(item, Mapping):
        if "variable_a" in item:
            return _triple(item)
        item = item.get("text", item)
    return as_text(item)


def _triple(item: Mapping[str, Any]) -> str:
    """Return an older condition as text (§1.4)."""
    variable, operator, value = (
        as_text(item.get(name, "")) for name in ("variable_a", "operator", "variable_b")
    )
    operator = operator.strip()
    field_name = variable.strip().removeprefix("tb.")
    return f"tb.{field_name} {_OPERATOR_WORDS.get(operator, operator)} {value}"


def _rag(settings: Mapping[str, Any]) -> RagTrigger:
    threshold = as_number(settings.get("threshold"))
    top_k = as_integer(settings.get("top_k"))
    template = settings.get("query_template")
    usual = RagTrigger()
    return RagTrigger(
        threshold=usual.threshold if threshold is None else threshold,
        top_k=usual.top_k if top_k is None else top_k,
        query_template=template if isinstance(template, str) and template else None,
    )


def _logic(settings: Mapping[str, Any]) -> LogicTrigger:
    variable, operator = settings.get("variable1"), settings.get("operator")
    if not isinstance(variable, str) or not isinstance(operator, str):
        raise _BrokenError
    if operator not in _LOGIC_OPERATORS:
        raise _BrokenError
    other = settings.get("variable2")
    return LogicTrigger(
        variable=variable.strip().removeprefix("tb."),
        operator=cast("LogicOperator", operator),
        other="" if other is None else as_text(other),
    )
