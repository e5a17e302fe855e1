"""Random books and requests, small enough to clash: few words, few ids, tight budgets."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support import BOOK_ID, OTHER_BOOK_ID, Document

POSITIONS = [
    *("before_character", "after_character", "before_examples", "after_examples"),
    *("author_note_top", "author_note_bottom", "at_depth", "outlet"),
]
KINDS = ["lore", "character", "rule", "template", "state_update", "presentation"]
LOGICS = ["and_any", "and_all", "not_any", "not_all"]

WORDS = st.sampled_from(
    ["lamp", "Lamp", "lamps", "oil", "king", "kingdom", "灯塔", "灯", "ランプ", "лампа", "등대"]
)
REGEXES = st.sampled_from(
    [r"/lamps?/i", r"/灯./u", r"/^king|лампа$/", r"/(?<=oil )king/", r"/[^]{9}$/", "/(/", "/a/gg"]
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
# No NUL and no surrogates: the contract refuses them.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
HOSTILE = st.lists(
    st.sampled_from(
        [
            *("</worldbook-entry>", "<worldbook-entry id=", '"', "'", ">", "<", "&", "&lt;"),
            *("\n", "\r", "\t", "]]>", "<!--", "{", "}", "灯", "title=", "\u2028", "\x85", " "),
            "&#10;",
        ]
    ),
    min_size=1,
    max_size=8,
).map("".join)
TEMPLATED = st.sampled_from(["{{char}} lights a lamp", "{{ USER }}: king", "{{time}}", "{{}}"])
CONTENT = st.one_of(SENTENCES, SENTENCES, TEMPLATED, HOSTILE, st.just(""), st.just(" \u3000"))
PATHS = st.sampled_from(["weather", "weather.storm", "list.0", "list.7", "absent"])
KEY_EXPRESSIONS = [
    *(
        "lamp and king",
        "(灯 and not 灯塔) or ランプ",
        "not lamp",
        "oil or",
        "等 或 лампа",
        "/x/ or oil",
    )
]
CONDITION_TEXTS = st.lists(
    st.sampled_from(
        [
            "tb.weather.storm = true",
            "not tb.absent = 1 or tb.list.0 > 5",
            "tb.list 包括 1",
            "weather",
        ]
    ),
    max_size=2,
)
SCALARS: st.SearchStrategy[Any] = st.sampled_from(
    [True, False, None, 1, 1.0, "1", [], {"storm": True}]
)


def rarely(value: object, otherwise: object) -> st.SearchStrategy[Any]:
    """Return the first value in about one of eight draws."""
    return st.sampled_from([value, *[otherwise] * 7])


@st.composite
def conditions(draw: st.DrawFn) -> Document:
    """Draw one valid condition."""
    operation = draw(st.sampled_from(["eq", "ne", "in", "exists"]))
    values = {"in": st.lists(SCALARS, min_size=1, max_size=3), "exists": st.booleans()}
    value = draw(values.get(operation, SCALARS))
    return {"path": draw(PATHS), "op": operation, "value": value}


@st.composite
def entries(draw: st.DrawFn, entry_id: str, earlier: list[str]) -> Document:
    """Draw one valid entry that may require entries drawn before it."""
    position = draw(st.sampled_from([*POSITIONS[:2] * 5, *POSITIONS]))
    requires = (
        st.lists(st.sampled_from(earlier), unique=True, max_size=2) if earlier else st.just([])
    )
    return {
        "id": entry_id,
        "title": draw(st.one_of(st.just(""), SENTENCES, HOSTILE)),
        "content": draw(CONTENT),
        "enabled": draw(rarely(value=False, otherwise=True)),
        "constant": draw(rarely(value=True, otherwise=False)),
        "required": draw(st.integers(0, 15).map(lambda number: number == 9)),
        "keys": draw(st.lists(st.one_of(WORDS, WORDS, st.just(" "), REGEXES), max_size=3)),
        "secondary_keys": draw(st.lists(st.one_of(WORDS, WORDS, REGEXES), max_size=2)),
        "selective": draw(st.booleans()),
        "logic": draw(st.sampled_from(LOGICS)),
        "key_expression": draw(
            st.one_of(st.none(), st.none(), st.none(), st.sampled_from(KEY_EXPRESSIONS))
        ),
        "case_sensitive": draw(st.booleans()),
        "match_whole_words": draw(st.booleans()),
        "probability": draw(st.sampled_from([100, 100, 100, 50, 12.5, 0])),
        "scan_depth": draw(st.sampled_from([None, None, 0, 1, 3])),
        "conditions": draw(st.one_of(st.just([]), st.just([]), st.lists(conditions(), max_size=2))),
        "conditions_text": draw(st.one_of(st.just([]), st.just([]), CONDITION_TEXTS)),
        "requires": draw(st.one_of(st.just([]), requires)),
        "priority": draw(st.integers(-1, 1)),
        "order": draw(st.integers(-1, 1)),
        "conflict_key": draw(st.sampled_from([None, None, None, "c", "d"])),
        "audience": draw(st.sampled_from([["actor"], ["actor"], ["planner", "actor"], []])),
        "kind": draw(st.sampled_from([*KINDS[:3] * 4, *KINDS])),
        "position": position,
        "depth": draw(st.integers(0, 2)),
        "role": draw(st.sampled_from(["system", "user", "assistant"])),
        "outlet_name": draw(st.sampled_from(["slot", "other"])) if position == "outlet" else None,
        "exclude_recursion": draw(st.booleans()),
        "prevent_recursion": draw(st.booleans()),
        "recall": draw(st.booleans()),
        "runtime_requirements": draw(rarely(value=["ejs"], otherwise=[])),
        "metadata": draw(rarely(value={"note": ["灯", 1.5]}, otherwise={})),
        "source": draw(rarely(value={"format": "x", "raw": {"a": None}}, otherwise={})),
    }


@st.composite
def entry_lists(draw: st.DrawFn, max_size: int = 9) -> list[Document]:
    """Draw the entries of a book; ids hold what must be escaped, and are no ASCII order."""
    ids = draw(
        st.lists(
            st.sampled_from(
                ["a", "b", "B", "a-1", "灯", "é", "<x>", '"q"', "&amp;", "z z", "_", "0"]
            ),
            unique=True,
            max_size=max_size,
        )
    )
    return [draw(entries(entry_id, ids[:index])) for index, entry_id in enumerate(ids)]


@st.composite
def request_fields(draw: st.DrawFn) -> Document:
    """Draw everything of a request but its books."""
    capabilities = st.fixed_dictionaries(
        {
            "positions": st.lists(st.sampled_from(POSITIONS), unique=True),
            "outlets": st.just(["slot"]),
        }
    )
    turns = st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": SENTENCES | st.just("")}
    )
    return {
        "query": draw(SENTENCES),
        "history": draw(st.lists(turns, max_size=4)),
        "state": draw(st.sampled_from([{}, {"weather": {"storm": True}, "list": [1, None]}])),
        "scan_depth": draw(st.integers(0, 5)),
        "token_budget": draw(st.sampled_from([0, 45, 100, 150, 300, 1500, 32_000])),
        "constant_budget_ratio": draw(st.sampled_from([0, 0.1, 0.35, 0.7, 1])),
        "max_entries": draw(st.sampled_from([1, 2, 4, 50])),
        "max_recursion_rounds": draw(st.integers(0, 5)),
        "seed": draw(st.sampled_from(["0", "1", "种子"])),
        "template_vars": draw(
            st.sampled_from([{}, {"char": "Mara", "user": "Ash"}, {"char": "{{user}} & <b>"}])
        ),
        "placement_capabilities": draw(st.none() | capabilities),
        "wrapper": draw(st.sampled_from(["full", "full", "short", "plain"])),
    }


@st.composite
def snapshots(draw: st.DrawFn) -> list[tuple[str, list[Document]]]:
    """Draw one or two books as pairs of id and entries."""
    first = (BOOK_ID, draw(entry_lists()))
    return (
        [first, (OTHER_BOOK_ID, draw(entry_lists(max_size=4)))] if draw(st.booleans()) else [first]
    )


# Pieces of many scripts. A mark follows what it composes with, or stands alone.
PIECES = [
    *(
        "a",
        "B",
        "k",
        "s",
        "S",
        "i",
        "I",
        "ſ",
        "ß",
        "ẞ",
        "f",
        "ﬁ",
        "ﬀ",
        "İ",
        "ı",
        "K",
        "é",
        "e\u0301",
    ),
    *(
        "É",
        "E\u0301",
        "x\u0302",
        "\u0301",
        "д",
        "Д",
        "й",
        "и\u0306",
        "σ",
        "ς",
        "Σ",
        "ΐ",
        "ι\u0308\u0301",
    ),
    *(
        "Ϊ\u0301",
        "灯",
        "塔",
        "か",
        "が",
        "か\u3099",
        "カ",
        "ー",
        "한",
        "하",
        "ᄒ",
        "ᅡ",
        "ᆫ",
        "ก",
        "กำ",
        "กิ",
    ),
    *(
        "👩\u200d👩",
        "👩",
        "\u200d",
        "❤\ufe0f",
        "_",
        "7",
        "７",
        "Ａ",
        " ",
        "\u3000",
        "-",
        ".",
        "'",
        "#",
    ),
]
SCRIPT_TEXT = st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join)
SCRIPT_KEYS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)


@st.composite
def keys_and_texts(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a key and a text; mostly the text holds the key, in some other form of it."""
    key = draw(SCRIPT_KEYS)
    text = draw(SCRIPT_TEXT)
    forms = [key, key.upper(), key.lower(), key.casefold(), key.swapcase()]
    return key, draw(st.sampled_from([text, *[text[:5] + form + text[5:] for form in forms]]))
