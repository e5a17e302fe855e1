"""Attacks on turns: what costs matching, recursion, macros and replays much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from siege.acts import ask, leave
from siege.attack import Attack, Blow, Site

Json = Any
_UUID = "-0000-4000-8000-000000000000"
_ACTIVATE, _REPLAY = "/v1/sillytavern/activate", "/v1/sillytavern/replay"
_PREVIEW, _SELECT = "/v1/context/preview", "/v1/context/select"
_REPLICA = "/v1/replica/activate"
BACKTRACKING = "/(a+)+$/"


def world(entries: Iterable[Json]) -> Json:
    """Return a book of SillyTavern's, inline."""
    return {"name": "w", "entries": {str(n): {"uid": n, **each} for n, each in enumerate(entries)}}


def turn(entries: Iterable[Json], messages: Sequence[str], **given: Json) -> Json:
    chat = [{"content": text} for text in messages]
    return {"books": [world(entries)], "chat": chat, "context_tokens": 8_000, **given}


def native(entries: Sequence[Json], **given: Json) -> Json:
    book = {"name": "w", "entries": [{"content": "x", **each} for each in entries]}
    return {"books": [{"book": book}], "query": "a", **given}


def said(texts: Iterable[str]) -> Json:
    return [{"role": "user", "content": text} for text in texts]


def _v8_depths(site: Site) -> list[Blow]:
    count = site.size(1_000)
    entries = ({"key": ["/zz/"], "scanDepth": n + 1} for n in range(count))
    return [(ask, site.post(_ACTIVATE, turn(entries, ["a" * 1_200] * count)))]


def _v8_emoji(site: Site) -> list[Blow]:
    count = site.size(100)
    entries = [{"keys": ["/zz/"], "scan_depth": n + 1} for n in range(count)]
    return [(ask, site.post(_PREVIEW, native(entries, history=said(["😀" * 12_000] * count))))]


def _backtracking(site: Site) -> list[Blow]:
    entries = ({"key": [BACKTRACKING.replace("a", chr(97 + n % 26))]} for n in range(2_000))
    texts = [chr(97 + n) * 40 + "!" for n in range(26)]
    given = {"settings": {"world_info_depth": 1_000}}
    return [(ask, site.post(_ACTIVATE, turn(entries, texts, **given)))]


def _nested_keys(site: Site) -> list[Blow]:
    entries = [{"key": ["a" * (n + 1)]} for n in range(200)]
    given = {"settings": {"world_info_depth": 1_000, "world_info_match_whole_words": False}}
    texts = ["a" * site.size(200_000)] * 5
    history = said(["a" * 16_000] * site.size(100))
    keys = [{"keys": ["a" * (n + 1) for n in range(200)], "scan_depth": 100}] * site.size(1_000)
    replica = {
        "books": {"w": {"entries": [{"uid": str(n), **each} for n, each in enumerate(entries)]}},
        "worldBookData": {"globalBooks": [{"id": "w"}]},
        "chatHistory": texts,
    }
    return [
        (ask, site.post(_ACTIVATE, turn(entries, texts, **given))),
        (ask, site.post(_PREVIEW, native(keys, history=history))),
        (ask, site.post(_REPLICA, replica)),
    ]


def _minimum(site: Site) -> list[Blow]:
    entries = ({"key": [f"/z{n}z/"]} for n in range(site.size(5_000)))
    given = {"settings": {"world_info_min_activations": 1_000_000}}
    texts = ["a lamp " * 10] * site.size(900)
    return [(ask, site.post(_ACTIVATE, turn(entries, texts, **given)))]


def _recursion(site: Site) -> list[Blow]:
    count = site.size(3_000, 10)
    entries = ({"key": [f"k{n}k"], "content": f"k{n + 1}k"} for n in range(count))
    given = {"settings": {"world_info_match_whole_words": False}}
    return [(ask, site.post(_ACTIVATE, turn(entries, ["k0k"], **given)))]


def _replays(site: Site) -> list[Blow]:
    entries = [{"key": [f"k{n}k", "lamp"], "content": "x " * 20} for n in range(300)]
    texts = ["a lamp and k1k " * 20] * site.size(10_000)
    given = {"settings": {"world_info_depth": 1_000}}
    return [(ask, site.post(_REPLAY, turn(entries, texts, **given)))]


def _macros(site: Site) -> list[Blow]:
    many = "{{user}}" * site.size(7_000)
    entries = [{"key": [], "constant": True, "content": many}] * site.size(100)
    user = {"user": "u" * 500}
    budget = {"settings": {"world_info_budget": 100}, "context_tokens": 1_000_000_000}
    spread = [{"content": "{{user}}" * site.size(25_000), "constant": True}] * site.size(200)
    return [
        (ask, site.post(_ACTIVATE, {**turn(entries, ["a"], macros=user), **budget})),
        (ask, site.post(_PREVIEW, native(spread, template_vars=user, token_budget=32_000))),
        (ask, site.post(_REPLICA, _replica_macros(site))),
    ]


def _replica_macros(site: Site) -> Json:
    many = "{{user}}" * site.size(25_000)
    entries = [
        {"uid": str(n), "content": many, "activationType": "permanent"}
        for n in range(site.size(60))
    ]
    return {
        "books": {"w": {"entries": entries}},
        "worldBookData": {"globalBooks": [{"id": "w"}]},
        "user": "u" * 500,
    }


def _macro_keys(site: Site) -> list[Blow]:
    keys = ["{{user}}" * 60] * 100
    entries = ({"key": keys} for _ in range(site.size(300)))
    user = {"user": "u" * 500}
    return [(ask, site.post(_ACTIVATE, turn(entries, ["a " * 5_000] * 10, macros=user)))]


def _half_macros(site: Site) -> list[Blow]:
    size = site.size(60_000)  # an entry takes no more
    shapes = ("{{" * (size // 2), "{{random:" * (size // 9), "{{user" * (size // 6), "{" * size)
    return [
        (ask, site.post(_ACTIVATE, turn([{"constant": True, "content": text}] * 20, ["a"])))
        for text in shapes
    ]


def _folding(site: Site) -> list[Blow]:
    texts = ["\u0130\ufdfa" * site.size(50_000)] * 20
    entries = ({"key": [f"\ufdfa{n}"]} for n in range(200))
    given = {"settings": {"world_info_depth": 1_000}}
    return [(ask, site.post(_ACTIVATE, turn(entries, texts, **given)))]


def _many_keys(site: Site) -> list[Blow]:
    entries = [{"keys": [f"{n:x}-{m:x}" for m in range(200)]} for n in range(site.size(1_500))]
    return [(ask, site.post(_PREVIEW, native(entries)))]


def _many_hits(site: Site) -> list[Blow]:
    entries = [{"keys": ["e", "a", "i"], "content": "e a i " * 10} for _ in range(5_000)]
    history = said(["e a i " * 2_600] * site.size(100))
    given = {"scan_depth": 100, "max_recursion_rounds": 5, "max_entries": 200}
    return [(ask, site.post(_PREVIEW, native(entries, history=history, **given)))]


def _recursion_native(site: Site) -> list[Blow]:
    open_to = {"exclude_recursion": False, "prevent_recursion": False}
    count = site.size(5_000)
    entries = [
        {"keys": [f"k{n % 6}"], "content": f"k{n % 6 + 1} " * 600, **open_to} for n in range(count)
    ]
    given = {"query": "k0", "max_recursion_rounds": 5, "max_entries": 200, "token_budget": 32_000}
    return [(ask, site.post(_PREVIEW, native(entries, **given)))]


def _requires(site: Site) -> list[Blow]:
    count = site.size(5_000)
    entries = [
        {
            "id": f"e{n}",
            "keys": ["a"],
            "conflict_key": f"c{n % 50}",
            "requires": [f"e{m}" for m in range(n + 1, min(n + 21, count))],
        }
        for n in range(count)
    ]
    return [(ask, site.post(_PREVIEW, native(entries, token_budget=32_000)))]


def _groups(site: Site) -> list[Blow]:
    names = ",".join(f"g{n}" for n in range(1_500))
    entries = ({"key": ["lamp"], "group": names, "groupWeight": 1} for _ in range(site.size(500)))
    given = {"settings": {"world_info_use_group_scoring": True}}
    return [(ask, site.post(_ACTIVATE, turn(entries, ["lamp"], **given)))]


def _conditions(site: Site) -> list[Blow]:
    state = {f"v{n}": n for n in range(10_000)}
    table = {"dynamicTableData": {"currentValues": state}}
    text = " and ".join(f"v{n} >= 0" for n in range(38))
    entries = [
        {
            "uid": str(n),
            "content": "x",
            "trigger_config": {"triggers": {"condition": [True, {"conditions": [text] * 50}]}},
        }
        for n in range(site.size(450))
    ]
    book = {"books": {"w": {"entries": entries}}, "worldBookData": {"globalBooks": [{"id": "w"}]}}
    nots = [{"conditions_text": ["not " * 100 + "v1 = 1"] * 50, "constant": True}] * 2_000
    nots = nots[: site.size(2_000)]
    return [
        (ask, site.post(_REPLICA, {**book, **table})),
        (ask, site.post(_PREVIEW, native(nots, state=state))),
    ]


def _try(site: Site) -> list[Blow]:
    path = "/v1/conditions/try"
    state = {f"v{n}": "x" * 20 for n in range(8_000)}
    shapes: list[Mapping[str, Json]] = [
        {"text": "(" * 4_000 + "a = 1" + ")" * 3_990},
        {"text": "not " * 1_998 + "a = 1"},
        {"text": " or ".join(["v1 = 2"] * 800), "table": state},
        {"text": " or ".join(f"a{'a' * (n % 40)}" for n in range(150)), "rules": "keys"},
        {"text": "and " * 1_999, "rules": "keys"},
        {"text": "(((a or b) and " * 500, "rules": "keys", "message": "a b " * 4_000},
    ]
    shapes[3] = {**shapes[3], "message": "a" * 16_000, "case_sensitive": True}
    return [(ask, site.post(path, shape)) for shape in shapes]


def _timed(site: Site) -> list[Blow]:
    """Conversations whose beginnings have to be hashed, and whose states are kept."""
    entries = [
        {"key": ["lamp"], "content": "x", "sticky": 1_000, "cooldown": 1_000}
        for _ in range(site.size(2_000))
    ]
    texts = ["lamp " * 20] * site.size(5_000)
    return [
        (ask, site.post(_ACTIVATE, turn(entries, texts, conversation_id=f"c{n}", seed=f"s{n}")))
        for n in range(4)
    ]


def _kept(site: Site) -> list[Blow]:
    """Small answers to large requests, each of which is kept for a while."""
    book_id = site.create({"name": "lamp", "entries": [{"content": "x", "keys": ["zz"]}]})
    base = {"books": [{"book_id": book_id}], "query": "a", "explain": "none"}
    history = said(["b" * 16_000] * site.size(90))
    return [
        (ask, site.post(_SELECT, {**base, "history": history, "seed": f"{n}"})) for n in range(40)
    ]


def _storm(site: Site) -> list[Blow]:
    heavy = (*_nested_keys(site), *_minimum(site), *_replays(site), *_v8_depths(site))
    return [(leave, data) for _, data in heavy]


def _overrides(site: Site) -> list[Blow]:
    forced = [{"ref": "w.0", "override": {"content": "x" * 60_000}}] * site.size(700)
    entries = [{"key": ["a"], "content": "a"}] * 50
    return [(ask, site.post(_ACTIVATE, turn(entries, ["a"], forced=forced)))]


def _free_objects(site: Site) -> list[Blow]:
    """Free-form objects, each of which is looked through and measured."""
    deep: Json = {"x": 1}
    for _ in range(60):
        deep = {"x": deep}
    many = {f"k{n}": [deep] for n in range(90)}
    entries = [{"metadata": many, "source": many} for _ in range(site.size(100))]
    return [(ask, site.post(_PREVIEW, native(entries)))]


def _whole_books(site: Site) -> list[Blow]:
    """Twenty books that are compiled for one turn and never again."""
    entries = [
        {"content": f"{n} lamp " * 30, "keys": [f"key {n} {m}" for m in range(10)]}
        for n in range(site.size(500))
    ]
    books = [
        {"book": {"name": f"b{number}", "entries": entries}, "book_id": f"{number:08}{_UUID}"}
        for number in range(20)
    ]
    return [(ask, site.post(_PREVIEW, {"books": books, "query": "a"}))]


def _ledgers(site: Site) -> list[Blow]:
    """A turn that is computed anew whenever its ledger is opened."""
    entries = [{"content": "e a i " * 30, "keys": ["e", "a", "i"]} for _ in range(site.size(5_000))]
    book_id = site.create({"name": "ledger", "entries": entries})
    request = {
        "books": [{"book_id": book_id}],
        "query": "e a i " * 1_300,
        "history": said(["e a i " * 2_600] * site.size(100)),
        "scan_depth": 100,
        "explain": "none",
    }
    opened = site.ask("POST", _SELECT, request)["selection_fingerprint"]
    return [(ask, site.get(f"/v1/selections/{opened}"))]


TURNS = (
    Attack(name="v8 depths", make=_v8_depths, short=0.05),
    Attack(name="v8 emoji", make=_v8_emoji, short=0.05),
    Attack(name="backtracking regexes", make=_backtracking),
    Attack(name="nested keys", make=_nested_keys, short=0.05),
    Attack(name="regexes and minimum activations", make=_minimum, short=0.05),
    Attack(name="recursion chain", make=_recursion, short=0.1),
    Attack(name="native recursion", make=_recursion_native, short=0.05),
    Attack(name="replays", make=_replays, short=0.05),
    Attack(name="macros in texts", make=_macros, short=0.1),
    Attack(name="macros in keys", make=_macro_keys, short=0.05),
    Attack(name="macros half open", make=_half_macros, short=0.1),
    Attack(name="letters that fold to many", make=_folding, short=0.05),
    Attack(name="many keys", make=_many_keys, short=0.05),
    Attack(name="many hits", make=_many_hits, short=0.05),
    Attack(name="requirements and conflicts", make=_requires, short=0.1),
    Attack(name="groups", make=_groups, short=0.1),
    Attack(name="conditions", make=_conditions, short=0.02),
    Attack(name="conditions tried", make=_try),
    Attack(name="timed states", make=_timed, short=0.05),
    Attack(name="kept turns", make=_kept, short=0.1),
    Attack(name="ledgers opened", make=_ledgers, short=0.05),
    Attack(name="forced entries", make=_overrides, short=0.05),
    Attack(name="free-form objects", make=_free_objects, short=0.05),
    Attack(name="books compiled once", make=_whole_books, short=0.05),
    Attack(name="callers that leave", make=_storm, short=0.05),
)
