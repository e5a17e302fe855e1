"""Random entries of foreign files: both dialects, mixed, with the oddities that real files have."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lorewell.engine.sillytavern.entry.table import TABLE
from property.strategies import ANY_TEXT, POSITIONS, SENTENCES, WORDS
from support import Document

FORMS = {"world_info": "st_world", "card": "chara_card_v2"}
_SIGNS = st.sampled_from(["{{roll:d6}}", "<% go() %>", "<script>", "{{user}}"])
_DECORATORS = st.sampled_from(
    [
        *("depth 2", "depth -1", "depth x", "role user", "role 灯", "scan_depth 3", "activate"),
        *("position after_desc", "position scenario", "dont_activate", "is_greeting 1", ""),
    ]
)
_DECORATED = st.builds(
    lambda lines, text: "".join(lines) + text,
    st.lists(st.builds("{}{}\n".format, st.sampled_from(["@@", "@@", "@@@"]), _DECORATORS)),
    st.sampled_from(["灯", "", "\n\nランプ", "\n@@depth 3\n🏮", "@@role user"]),
)
_TEXTS = st.one_of(SENTENCES, ANY_TEXT, _SIGNS, st.just(""))
_ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, None, "", "100", "-3", "1.5", "false", "True", "灯", True, False, 0, 1, 2, 4, 7),
        *(-5, 3.0, 0.5, 10**30, 1e300, [], ["a", 7, None], {}, {"a": "{{roll}}"}),
    ]
)
_FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "isExclude": st.one_of(st.booleans(), _ODD),
        "names": st.one_of(st.lists(WORDS, max_size=2), _ODD),
        "tags": st.one_of(st.lists(WORDS, max_size=2), _ODD),
        "other": _ODD,
    },
)
_KEYS = st.one_of(
    st.lists(WORDS, max_size=3), st.sampled_from(["灯, /a[,;]b/i, ランプ", "lamp", "", ["/x/"]])
)
_GROUPS = st.sampled_from(["", "港", " a", "a,b", "a, ,", "g" * 195, "é,", ","])
_NUMBERS = st.one_of(st.integers(-2, 120), st.sampled_from([12.5, "7", 10**7]))
_USUAL = {
    "keys": _KEYS,
    "secondary_keys": _KEYS,
    "title": st.one_of(_TEXTS, st.just("題" * 501)),
    "content": st.one_of(_TEXTS, _DECORATED),
    "position": st.one_of(
        st.integers(0, 8), st.sampled_from(["before_char", "after_char", "at_depth", "nowhere"])
    ),
    "logic": st.one_of(st.integers(0, 4), st.sampled_from(["AND_ANY", "NOT_ALL"])),
    "role": st.one_of(st.none(), st.integers(0, 3)),
    "outlet_name": st.sampled_from(["", "棚", "slot", "o" * 101]),
    "group": _GROUPS,
    "automation_id": st.sampled_from(["", "ai", "🏮"]),
    "triggers": st.lists(st.sampled_from(["normal", "swipe", "quiet"]), max_size=2),
    "character_filter": _FILTERS,
    **dict.fromkeys(
        [
            *("order", "priority", "depth", "scan_depth", "probability", "group_weight"),
            *("sticky", "cooldown", "delay", "delay_until_recursion", "display_index"),
        ],
        _NUMBERS,
    ),
}
_PLACES = [(field.name, name.path) for field in TABLE for name in field.names["world_info"]]


def _put(raw: Document, path: str, value: object) -> None:
    *steps, last = path.split("/")
    for step in steps:
        raw = raw.setdefault(step, {})
    raw[last] = value


@st.composite
def raw_entries(draw: st.DrawFn) -> Document:
    """Draw an entry: any fields under any of their names, and members that nobody knows."""
    raw: Document = {}
    for name, path in draw(st.lists(st.sampled_from(_PLACES), max_size=14, unique=True)):
        usual = _USUAL.get(name, st.booleans())
        _put(raw, path, draw(st.one_of(usual, usual, usual, _ODD)))
    for name in draw(st.lists(st.sampled_from(["uid", "id", "未知", "use_regex"]), unique=True)):
        raw[name] = draw(st.one_of(st.integers(0, 9), _TEXTS, _ODD))
    if draw(st.integers(0, 9)) == 0:
        raw["extensions"] = draw(_ODD)
    elif draw(st.booleans()):
        _put(raw, "extensions/regex_scripts", [draw(_ODD)])
    return raw


_FLAG = st.booleans()
_CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "title": SENTENCES,
    "content": SENTENCES,
    "keys": st.lists(WORDS, max_size=3).map(tuple),
    "secondary_keys": st.lists(WORDS, max_size=3).map(tuple),
    "logic": st.sampled_from(["and_any", "and_all", "not_any", "not_all"]),
    "probability": st.sampled_from([0, 12.5, 50, 100]),
    "scan_depth": st.one_of(st.none(), st.integers(0, 100)),
    "priority": st.integers(-9, 9),
    "order": st.integers(-9, 9),
    "conflict_key": st.sampled_from([None, "group:港", "group:a,b", "free", "group:"]),
    "audience": st.sampled_from([("actor",), ("planner", "役者"), ()]),
    "kind": st.sampled_from(["lore", "character", "rule", "template"]),
    "position": st.sampled_from(POSITIONS),
    "depth": st.integers(0, 9),
    "role": st.sampled_from(["system", "user", "assistant"]),
    "requires": st.sampled_from([(), ("灯", "b")]),
    "runtime_requirements": st.sampled_from([(), ("ejs",), ("sticky", "macro")]),
    "metadata": st.sampled_from([{}, {"ноты": [1.5]}]),
    "replica": st.sampled_from([None, {"a": 1}]),
    "conditions_text": st.sampled_from([(), ("tb.力量 > 10", "not tb.a = 1")]),
    "key_expression": st.sampled_from([None, "灯 and not (fog or 雾)"]),
    "conditions": st.sampled_from([[], [{"path": "weather", "op": "eq", "value": "雨"}]]),
    **dict.fromkeys(
        [
            *("enabled", "constant", "required", "selective"),
            *("exclude_recursion", "prevent_recursion", "recall"),
        ],
        _FLAG,
    ),
    **dict.fromkeys(
        ["case_sensitive", "match_whole_words"], st.sampled_from([None, False, False, True])
    ),
}
_BLOCK_CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "use_group_scoring": st.sampled_from([None, True, False]),
    "group": st.sampled_from(["", "a,b", "灯, 塔"]),
    "group_weight": st.sampled_from([0, 1, 99.5, 100]),
    "delay_until_recursion": st.sampled_from([0, True, 2]),
    "triggers": st.sampled_from([(), ("quiet",)]),
    "character_filter": st.sampled_from(
        [None, {"is_exclude": True, "names": ("Мара",), "tags": ()}]
    ),
    "automation_id": st.sampled_from(["", "ランプ"]),
    "display_index": st.sampled_from([None, 0, 3]),
    **dict.fromkeys(("sticky", "cooldown", "delay"), st.sampled_from([None, 1, 7])),
}


def core_changes(names: list[str]) -> st.SearchStrategy[tuple[str, Any]]:
    """Draw an Entry field of these and a valid value for it."""
    return st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), _CHANGES[name]))


def block_changes(names: list[str]) -> st.SearchStrategy[tuple[str, Any]]:
    """Draw a member of the block of these and a valid value for it."""
    return st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), _BLOCK_CHANGES.get(name, _FLAG))
    )
