"""Random cases in the form of the golden corpus, so small and so alike that rules meet.

An entry is the template, or nothing but a few fields, with a handful of fields set to values that
matter to some rule, or missing. Words are few, so that texts and keys hit each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from world_info import TEMPLATE, expand

Case = dict[str, Any]

WORDS = (
    "gate", "Gate", "gates", "old gate", "vault", "Mira", "лес", "лесной", "ЛЕС", "森林", "黑森林",
    "ดาบ", "ดาบเก่า", "straße", "STRASSE", "İzmir", "i̇zmir", "ΟΔΟΣ", "οδος", "é", "e\u0301", "🐉",
    "👩‍🚀", "_", "x7",
)  # fmt: skip
REGEXES = (
    "/gat./", "/GATE/i", "/\\bgate\\b/i", "/^\\x01gate/", "/gate$/", "/gate$/m", "/森[林木]/u",
    "/^.$/mu", "/^..$/m", "/a/b/", "/[/]/", "/(/", "/gate/gg", "/gate/y", "/\\x01Tom: gate/y",
    "/\\p{Script=Han}/u", "/o\\/x/", "/лес\\b/", "/[^]/", "/[]/", "/x{,3}/", "/\u00e9/", "//i",
    "/gate\n森林/s", "/^$/", "/x*/",
)  # fmt: skip
ODD_KEYS = (
    "", " ", "\u3000", "\ufeff", "\u200b", "{{newline}}", "{{noop}}", "{{user}}", "<BOT>",
    "{{char}} gate", "{{reverse:etag}}", "{{nobody}}", " gate ", "old\u3000gate", "gate\u0085",
    "\x01", "\n",
)  # fmt: skip
KEYS_TO_FEW = (
    "gate", "gate", "vault", "vault", "Mira", "森林", "森林", "/GATE/i", "{{char}}", " vault ", "",
    "dragon",
)  # fmt: skip
SCAN_TEXTS = (
    "personaDescription", "characterDescription", "characterPersonality", "characterDepthPrompt",
    "scenario", "creatorNotes",
)  # fmt: skip
SEPARATORS = (" ", " ", "", "\n", ", ", "x", "\u3000", "\u200b", "/", "\n\n")
DECORATORS = (
    "@@activate\n", "@@dont_activate\n", "@@activate \n", "@@unknown\n@@@activate\n",
    "@@@activate\n", "@@depth 2\n", "@@activate", "@@activate\n@@x\n",
)  # fmt: skip

MISSING = object()
FLAGS = (True, False, None, MISSING)
FIELDS: Mapping[str, Sequence[Any]] = {
    "disable": (True, 1, "1", 0, "true", None, MISSING),
    "constant": (True, True, 1, "", MISSING),
    "selective": (True, False, MISSING),
    "selectiveLogic": (0, 1, 2, 3, 3, 4, "0", None, MISSING),
    "order": (1, 50, 50, 200, -3, 1.5),
    "position": (0, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, None, "0", True, MISSING),
    "depth": (0, 1, 4, 4, None, "4", MISSING),
    "role": (0, 1, 2, None, MISSING),
    "outletName": ("", "lore", "山", MISSING),
    "scanDepth": (None, 0, 1, 2, 3, -1, 1000, MISSING),
    "caseSensitive": FLAGS,
    "matchWholeWords": FLAGS,
    "matchPersonaDescription": (True, False),
    "matchScenario": (True, 1),
    "matchCreatorNotes": (True,),
    "matchCharacterDescription": (True,),
    "matchCharacterPersonality": (True,),
    "matchCharacterDepthPrompt": (True,),
    "triggers": ([], ["normal"], ["swipe"], ["quiet", "normal"], None, MISSING),
    "characterFilter": (
        None,
        {},
        {"names": ["mira.v2"], "tags": [], "isExclude": False},
        {"names": ["mira.v2"], "isExclude": True},
        {"names": ["other"], "isExclude": False},
        {"names": [], "tags": ["t1"], "isExclude": False},
        {"tags": ["t1", "t9"], "isExclude": True},
        {"names": ["other"], "tags": ["t2"], "isExclude": True},
    ),
    "key": ([], "gate", None, MISSING),
    "comment": ("a 森林 note",),
    "world": ("b", "elsewhere"),
}
GROUP_FIELDS: Mapping[str, Sequence[Any]] = {
    "group": ("a", "a", "b", "a,b", "b, a", "2,10", "10,a", "2", " a", "a ,b", "a,a", "", None),
    "groupOverride": (True, True, False, MISSING),
    "groupWeight": (0, 0, 1, 50, 100, 33.3, None, MISSING),
    "useGroupScoring": (True, False, None, MISSING),
}
TIMED_FIELDS: Mapping[str, Sequence[Any]] = {
    "sticky": (None, 0, 1, 2, 3, 2, "2", MISSING),
    "cooldown": (None, 0, 1, 2, 3, 2, "2", MISSING),
    "delay": (None, 0, 1, 2, 3, MISSING),
}
LOOP_FIELDS: Mapping[str, Sequence[Any]] = {
    "delayUntilRecursion": (True, 1, 2, 3, 2, 0, False, None, MISSING),
    "excludeRecursion": (True, True, False, MISSING),
    "preventRecursion": (True, True, False, MISSING),
    "probability": (50, 50, 0, 100, "100", 99.5, None, MISSING),
    "useProbability": (True, False, MISSING),
    "ignoreBudget": (True, True, False, MISSING),
}
EVERY_FIELD = {**FIELDS, **GROUP_FIELDS, **TIMED_FIELDS, **LOOP_FIELDS}
SETTINGS: Mapping[str, Sequence[Any]] = {
    "depth": (0, 1, 2, 4, 50),
    "min_activations": (1, 2, 3, 50),
    "min_activations_depth_max": (1, 2, 3),
    "budget": (0, 1, 10, 33.3, 100),
    "budget_cap": (1, 7, 20, 60),
    "recursive": (True, False),
    "case_sensitive": (True, False),
    "match_whole_words": (True, False),
    "use_group_scoring": (True, False),
    "character_strategy": (0, 1, 2, 7),
    "max_recursion_steps": (1, 2, 3),
}
# What a test is about: the fields that it sets on every entry, and those that it sets often.
THEMES: Mapping[str, tuple[Sequence[str], Mapping[str, Sequence[Any]]]] = {
    "keys": (("selectiveLogic", "matchWholeWords"), FIELDS),
    "groups": (("group", "useGroupScoring"), {**GROUP_FIELDS, "sticky": (1, 2, 3)}),
    "turns": (("sticky", "cooldown"), {**TIMED_FIELDS, "group": ("a", "a", "a,b")}),
    "loops": (("delayUntilRecursion", "preventRecursion"), LOOP_FIELDS),
    "macros": (("probability",), {**LOOP_FIELDS, **TIMED_FIELDS}),
}


def one_of(fields: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.sampled_from([(name, value) for name in fields for value in fields[name]])


def one_in(count: int) -> st.SearchStrategy[bool]:
    return st.sampled_from((*(count - 1) * (False,), True))


def texts_of(words: Sequence[str]) -> st.SearchStrategy[str]:
    piece = st.tuples(st.sampled_from(words), st.sampled_from(SEPARATORS)).map("".join)
    return st.lists(piece, min_size=1, max_size=4).map("".join)


# All words where keys are the point; elsewhere a few, so that most entries are found.
FEW = ("gate", "vault", "Mira", "森林")
TEXTS = {theme: texts_of(WORDS if theme == "keys" else FEW) for theme in THEMES}
KEYS = {
    theme: st.lists(
        st.sampled_from((*WORDS, *WORDS, *REGEXES, *ODD_KEYS) if theme == "keys" else KEYS_TO_FEW),
        min_size=1,
        max_size=3,
    )
    for theme in THEMES
}
MACRO_KEYS = (
    "gate", "{{random::gate::vault}}", "never{{incvar::n}}", "gate{{setvar::k::vault}}", "森林",
    "/{{char}}/", "{{getvar::k}}", "{{if {{.n > 2}}}}vault{{/if}}", "{{// 1}}Mira", "{{persona}}",
    "/ga\\{0,1\\}te/i", "{{setvar::k::{{random::Mira::x}}}}{{.k}}", "{{roll:d2}}", "{{ char }}",
)  # fmt: skip
MACRO_CONTENTS = (
    "{{incvar::n}} ", "{{random::gate::vault::森林}} ", "{{setvar::k::森林}}", "{{getvar::k}} ",
    "{{addglobalvar::g::1}}{{getglobalvar::g}} ", "{{description}} ", "{{.n ||= 1}}", "\\{x\\} ",
    "{{if .k}}{{.k}}{{else}}vault{{/if}} ", "{{roll:2d6}} ", "{{reverse::etag}} ", "",
)  # fmt: skip
KEYS["macros"] = st.lists(st.sampled_from(MACRO_KEYS), min_size=1, max_size=3)
MACRO_CARDS = ("a {{user}}", "{{incvar::c}}", "{{random::gate::vault}} of {{char}}")
MACRO = st.sampled_from((*5 * ("",), "{{user}} ", "{{newline}}", "{{persona}}", "\n{{trim}}"))
ODD_MESSAGE = st.sampled_from(("", " ", "\n", "Tom: gate"))
DECORATOR = st.sampled_from((*60 * ("",), *DECORATORS))
NAME = st.sampled_from(("b", "c", "森"))


def messages(theme: str) -> st.SearchStrategy[str]:
    text = TEXTS[theme]
    return st.one_of(text, text, text.map("Tom: {}".format), ODD_MESSAGE)


@st.composite
def entries(draw: st.DrawFn, theme: str, uid: int) -> Case:
    """Return an entry as a raw book has it."""
    always, often = THEMES[theme]
    entry: Case = {"uid": draw(st.sampled_from((*8 * (uid,), 1, "0", f"u{uid}")))}
    entry["key"] = draw(KEYS[theme])
    text = draw(TEXTS[theme]) if not draw(one_in(8)) else ""
    macro = st.sampled_from(MACRO_CONTENTS) if theme == "macros" else MACRO
    entry["content"] = draw(DECORATOR) + draw(macro) + text
    if not draw(one_in(4)):
        entry = expand(entry)
    entry["order"] = draw(st.sampled_from(FIELDS["order"]))
    entry["position"] = draw(st.sampled_from(range(8)))
    if entry["position"] == 7:
        entry["outletName"] = draw(st.sampled_from(FIELDS["outletName"][:3]))
    if draw(one_in(2 if theme == "keys" else 4)):
        entry["keysecondary"] = draw(KEYS[theme])
    changes = [(name, draw(st.sampled_from(EVERY_FIELD[name]))) for name in always]
    changes += draw(st.lists(one_of(often), max_size=3))
    changes += draw(st.lists(one_of(EVERY_FIELD), max_size=2))
    for name, value in changes:
        if value is MISSING:
            entry.pop(name, None)
        else:
            entry[name] = value
    return entry


@st.composite
def books(draw: st.DrawFn, theme: str) -> Case:
    """Return up to three raw books; in some an order is missing, and equal to any other."""
    found = {}
    for name in ("b", "c", "森")[: draw(st.sampled_from((1, 1, 2, 3)))]:
        size = draw(st.integers(3, 7)) if name == "b" else draw(st.integers(0, 3))
        listed = {str((at * 7) % 11): draw(entries(theme, at)) for at in range(size)}
        if draw(one_in(10)):
            for entry in listed.values():
                entry.pop("order", None)
        if listed and draw(one_in(8)):
            listed["again"] = next(iter(listed.values()))
        found[name] = {"entries": listed, "raw": True}
    return found


@st.composite
def forced(draw: st.DrawFn, theme: str) -> Case:
    """Return an entry forced from outside: a copy of one of the books, or an object of its own."""
    if draw(st.booleans()):
        changes = draw(st.lists(one_of({**THEMES[theme][1], **LOOP_FIELDS}), max_size=2))
        override = {name: value for name, value in changes if value is not MISSING}
        return {"ref": f"b.{draw(st.integers(0, 5))}", "override": override}
    entry = {**draw(entries(theme, 1)), "world": "b"}
    if draw(one_in(6)):
        del entry["world"]
    return {"entry": entry}


@st.composite
def steps(draw: st.DrawFn, theme: str, chat: Sequence[str]) -> Case:
    """Return one turn on a chat, newest first; its draws are to be repeated."""
    text = TEXTS[theme]
    named = draw(st.lists(st.sampled_from(SCAN_TEXTS), max_size=2))
    trigger = draw(st.sampled_from(("normal", "normal", "normal", "swipe", "quiet")))
    step = {
        "chat": list(chat),
        "maxContext": draw(st.sampled_from((*6 * (100_000,), 0, 20, 60, 100, 160, 240))),
        "dryRun": draw(one_in(8)),
        "globalScanData": {"trigger": trigger, **{name: draw(text) for name in named}},
        "rng": draw(st.lists(st.sampled_from(ROLLS), min_size=1, max_size=3)),
        "force": draw(st.lists(forced(theme), max_size=2)) if draw(one_in(4)) else [],
    }
    if draw(one_in(4)):
        step["extensionPrompts"] = [
            {"name": name, "value": draw(text), "scan": draw(st.booleans())}
            for name in draw(st.lists(st.sampled_from(("z", "1", "0", "a")), max_size=3))
        ]
    if draw(one_in(3)):
        flags = {"insert": draw(st.booleans()), "scan": draw(st.booleans())}
        value = draw(st.sampled_from(("", "\n", "\n{{user}}\n\n"))) + draw(text)
        step["authorsNote"] = {"value": value, **flags}
    return step


ROLLS = (0, 0.01, 0.25, 1 / 3, 0.4999, 0.5, 0.5001, 2 / 3, 0.75, 0.9999)
STATE: Case = {
    "sticky": {
        "b.0": {"hash": 5, "start": 0, "end": 2, "protected": False},
        "b.1": {"hash": 6, "start": 9, "end": 12, "protected": False},
        "b.2": "odd",
    },
    "cooldown": {"b.3": {"hash": 7, "start": 9, "end": 10, "protected": True}, "b.4": None},
}
STATES = (None, None, None, {}, STATE, {"sticky": "odd"}, {"sticky": None, "cooldown": {}})


@st.composite
def cases(draw: st.DrawFn, theme: str) -> Case:
    """Return a case of one to four turns; the chat grows, and is cut now and then."""
    lore, turns = draw(books(theme)), []
    message = messages(theme)
    chat = draw(st.lists(message, min_size=1, max_size=4))
    for _ in range(draw(st.sampled_from((2, 3, 4) if theme == "turns" else (1, 1, 1, 2)))):
        turns.append(draw(steps(theme, chat)))
        growth = draw(st.lists(message, min_size=1, max_size=2))
        chat = chat[1:] if draw(one_in(6)) else [*growth, *chat]
    extra = draw(st.lists(NAME, max_size=2))
    character = {"name": "Mira", "avatar": "mira.v2.png", "world": draw(NAME), "extra": extra}
    attach = {
        "global": draw(st.sampled_from((["b"], ["b"], ["b"], ["c", "b"], ["b", "b"], []))),
        **({"chat": draw(NAME)} if draw(one_in(4)) else {}),
        **({"persona": draw(NAME)} if draw(one_in(4)) else {}),
        **({"character": character} if draw(st.booleans()) else {}),
        "tagMap": draw(st.sampled_from(({}, {"mira.v2.png": ["t1", "t2"]}))),
    }
    settings = draw(st.lists(one_of(SETTINGS), max_size=4))
    macros = {}
    card = {"persona": "{{user}} of the gate", "scenario": "a 森林"}
    engine = "old"
    if theme == "macros":
        engine = draw(st.sampled_from(("new", "old")))
        card["description"] = draw(st.sampled_from(MACRO_CARDS))
        macros["macroInputs"] = {"variables": {"local": {"k": "gate"}, "global": {"g": "1"}}}
    return {
        **macros,
        "settings": {
            "macro_engine": engine,
            **{f"world_info_{name}": value for name, value in settings},
        },
        "books": lore,
        "attach": attach,
        "names": {"user": "Tom", "char": "Mira"},
        "card": card,
        "timedState": draw(st.sampled_from(STATES)),
        "steps": turns,
    }


assert set(TEMPLATE) >= {name for name in EVERY_FIELD if name not in {"world", "characterFilter"}}
