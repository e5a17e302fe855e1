"""Books with one planted fault each, and their clean twins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from lorewell.formats import import_file
from lorewell.model import BookCreate

Form = Literal["native", "st"]
Fields = Mapping[str, Any]

_NATIVE: Mapping[str, Sequence[Fields]] = {
    "en": (
        {"id": "ferry", "title": "Ferry", "content": "A flat boat.", "keys": ["ferry"]},
        {"id": "mill", "title": "Mill", "content": "Its wheel stands still.", "keys": ["mill"]},
        {"id": "abbot", "title": "Abbot", "content": "He counts candles.", "keys": ["abbot"]},
    ),
    "zh": (
        {"id": "渡口", "title": "渡口", "content": "木船靠在岸边。", "keys": ["渡口"]},
        {"id": "磨坊", "title": "磨坊", "content": "水轮早已停转。", "keys": ["磨坊"]},
        {"id": "住持", "title": "住持", "content": "他每晚清点蜡烛。", "keys": ["住持"]},
    ),
}


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A fault.

    Attributes:
        name: the name of the code to find.
        form: native fields, or those of a file of SillyTavern.
        language: of the other entries.
        fault, clean: the entries of the faulty book and of its twin, after the usual ones.
        at: the part of the pointer after the entry.
    """

    name: str
    form: Form
    language: str
    fault: Sequence[Fields]
    clean: Sequence[Fields]

    def book(self, *, clean: bool) -> BookCreate:
        """Return the faulty book or its twin."""
        own = self.clean if clean else self.fault
        if self.form == "native":
            return BookCreate.model_validate_json(
                orjson.dumps({"name": "B", "entries": [*_NATIVE[self.language], *own]})
            )
        return import_file(self.file(clean=clean), name="world.json").book

    def file(self, *, clean: bool) -> bytes:
        """Return the book as a file of SillyTavern."""
        usual = [
            {"key": each["keys"], "content": each["content"], "comment": each["title"]}
            for each in _NATIVE[self.language]
        ]
        own = self.clean if clean else self.fault
        entries = {
            str(uid): {**_ST_USUAL, "uid": uid, **entry} for uid, entry in enumerate([*usual, *own])
        }
        return orjson.dumps({"entries": entries})


_ST_USUAL: Fields = {
    "key": [],
    "keysecondary": [],
    "comment": "",
    "content": "",
    "constant": False,
    "selective": True,
    "selectiveLogic": 0,
    "order": 100,
    "position": 0,
    "disable": False,
    "probability": 100,
    "useProbability": True,
    "depth": 4,
    "group": "",
    "groupWeight": 100,
}


def native(name: str, fault: Fields, clean: Fields, language: str = "en") -> Planted:
    """Return a fault of one native entry."""
    usual = {"id": "it", "content": "The keeper never sleeps."}
    if language == "zh":
        usual["content"] = "守塔人从不入睡。"
    return Planted(
        name=name,
        form="native",
        language=language,
        fault=[{**usual, **fault}],
        clean=[{**usual, **clean}],
    )


def st(name: str, fault: Fields, clean: Fields, language: str = "en") -> Planted:
    """Return a fault of one entry of SillyTavern."""
    usual = {"content": "The keeper never sleeps." if language == "en" else "守塔人从不入睡。"}
    return Planted(
        name=name,
        form="st",
        language=language,
        fault=[{**usual, **fault}],
        clean=[{**usual, **clean}],
    )


def several(
    name: str, form: Form, fault: Sequence[Fields], clean: Sequence[Fields], language: str = "en"
) -> Planted:
    """Return a fault of several entries."""
    return Planted(name=name, form=form, language=language, fault=fault, clean=clean)


_LAMP = {"keys": ["lighthouse"]}
_TOWER = {"keys": ["灯塔"]}
_ST_LAMP = {"key": ["lighthouse"]}
_ST_TOWER = {"key": ["灯塔"]}
_LONG = "The lantern room smells of oil and salt, and the stairs are worn. " * 300
_LONG_ZH = "灯室里弥漫着油和盐的气味，台阶早已磨平，窗外只有海雾。" * 300
_TINY = [
    {"id": f"t{n}", "content": word, "keys": [word]}
    for n, word in enumerate(("oar", "net", "buoy", "rope", "hull", "mast", "keel", "sail"))
]

PLANTED: Sequence[Planted] = (
    # Keys and triggers.
    native("no-trigger", {}, _LAMP),
    native("no-trigger", {}, {"constant": True}, "zh"),
    st("no-trigger", {}, _ST_LAMP),
    st("no-trigger", {"key": "灯塔"}, _ST_TOWER, "zh"),
    native("blank-key", {"keys": ["lighthouse", "  "]}, _LAMP),
    st("blank-key", {"key": ["灯塔", " "]}, _ST_TOWER, "zh"),
    native("key-separator", {"keys": ["lighthouse,beacon"]}, {"keys": ["lighthouse", "beacon"]}),
    native("key-separator", {"keys": ["灯塔，灯室"]}, {"keys": ["灯塔", "灯室"]}, "zh"),
    native("key-separator", {"keys": ["灯塔、灯室"]}, _TOWER, "zh"),
    st("key-separator", {"key": ["灯塔；灯室"]}, _ST_TOWER, "zh"),
    st("key-separator", {"key": ["lighthouse\tbeacon"]}, {"key": ["1,000 lamps"]}),
    native("key-space", {"keys": [" lighthouse "]}, _LAMP),
    st("key-space", {"key": ["灯塔\u3000"]}, _ST_TOWER, "zh"),
    native("key-one-character", {"keys": ["灯"]}, _TOWER, "zh"),
    native("key-one-character", {"keys": ["K"]}, {"keys": ["🗼"]}),
    st("key-one-character", {"key": ["塔"]}, _ST_TOWER, "zh"),
    native("key-common", {"keys": ["the"]}, _LAMP),
    native("key-common", {"keys": ["我们"]}, _TOWER, "zh"),
    st("key-common", {"key": ["and"]}, _ST_LAMP),
    native("key-repeated", {"keys": ["lighthouse", "Lighthouse"]}, _LAMP),
    st("key-repeated", {"key": ["灯塔", "灯塔"]}, _ST_TOWER, "zh"),
    native("key-shadowed", {"keys": ["lighthouse", "old lighthouse"]}, {"keys": ["lighthouse"]}),
    st("key-shadowed", {"key": ["灯塔", "灯塔大门"]}, {"key": ["灯塔", "灯火"]}, "zh"),
    native("key-shared", {"keys": ["ferry"]}, _LAMP),
    st("key-shared", {"key": ["渡口"]}, _ST_TOWER, "zh"),
    native("key-hidden-character", {"keys": ["light\u200bhouse"]}, _LAMP),
    native("key-hidden-character", {"keys": ["灯\ufeff塔"]}, {"keys": ["می\u200cخواهم"]}, "zh"),
    st("key-hidden-character", {"key": ["light\u202ehouse"]}, _ST_LAMP),
    native("key-width", {"keys": ["ＡＢＣ塔"]}, {"keys": ["ABC塔"]}, "zh"),
    st("key-width", {"key": ["ﾄｳﾀﾞｲ"]}, {"key": ["トウダイ"]}),
    st("key-normal-form", {"key": ["cafe\u0301"]}, {"key": ["cafe"]}),
    native("key-confusable", {"keys": ["lіghthоuse"]}, {"keys": ["маяк"]}),
    native("key-case", {"keys": ["KEEPER"], "case_sensitive": True}, {"keys": ["keeper"]}),
    st("key-case", {"key": ["KEEPER"], "caseSensitive": True}, {"key": ["lamplighter"]}),
    native(
        "whole-words-closed",
        {"keys": ["candle"], "match_whole_words": True},
        {"keys": ["candles"], "match_whole_words": True},
    ),
    st("whole-words-closed", {"key": ["candle"]}, {"key": ["candles"]}),
    st(
        "whole-words-closed",
        {"key": ["守塔人"], "content": "K7守塔人"},
        {"key": ["守塔人"], "content": "老守塔人"},
        "zh",
    ),
    st("whole-words-open", {"key": ["маяк"]}, {"key": ["маяк"], "matchWholeWords": False}),
    native("macro-in-key", {"keys": ["{{char}}'s lamp"]}, _LAMP),
    st("macro-in-key", {"key": ["{{charr}}的灯"]}, {"key": ["{{char}}的灯"]}, "zh"),
    native(
        "key-expression-unreadable",
        {"key_expression": "lamp and"},
        {"key_expression": "lamp and not night"},
    ),
    # Regex keys.
    native("regex-invalid", {"keys": ["/lamp(/"]}, {"keys": ["/lamps?/"]}),
    native("regex-invalid", {"keys": ["/灯[塔/"]}, {"keys": ["/灯[塔室]/"]}, "zh"),
    st("regex-as-text", {"key": ["/lamp(/"]}, {"key": ["/lamps?/"]}),
    native("regex-as-text", {"keys": ["/lamp(s|e)/x"]}, {"keys": ["/var/log/lamp"]}),
    native("regex-matches-everything", {"keys": ["/.*/"]}, {"keys": ["/lamp.*oil/"]}),
    st("regex-matches-everything", {"key": ["/灯?/"]}, {"key": ["/灯塔?/"]}, "zh"),
    native("regex-expensive", {"keys": ["/(a+)+$/"]}, {"keys": ["/lamp[a-z]+/"]}),
    st("regex-expensive", {"key": ["/(塔.*)*.*灯.*/"]}, {"key": ["/塔.*灯/"]}, "zh"),
    native("regex-flag", {"keys": ["/lamps?/gi"]}, {"keys": ["/lamps?/i"]}),
    st("regex-flag", {"key": ["/灯塔/i"]}, {"key": ["/灯塔/"]}, "zh"),
    # Secondary keys and conditions.
    native(
        "secondary-excludes-key",
        {**_LAMP, "selective": True, "logic": "not_any", "secondary_keys": ["light"]},
        {**_LAMP, "selective": True, "logic": "not_any", "secondary_keys": ["night"]},
    ),
    st(
        "secondary-excludes-key",
        {**_ST_TOWER, "selectiveLogic": 2, "keysecondary": ["灯塔"]},
        {**_ST_TOWER, "selectiveLogic": 2, "keysecondary": ["夜"]},
        "zh",
    ),
    native("secondary-ignored", {**_LAMP, "secondary_keys": ["night"]}, _LAMP),
    st(
        "secondary-ignored",
        {**_ST_TOWER, "selective": False, "keysecondary": ["黑夜"]},
        {**_ST_TOWER, "keysecondary": ["黑夜"]},
        "zh",
    ),
    native(
        "secondary-always-holds",
        {**_TOWER, "selective": True, "secondary_keys": ["塔"]},
        {**_TOWER, "selective": True, "secondary_keys": ["黑夜"]},
        "zh",
    ),
    native(
        "conditions-contradict",
        {
            **_LAMP,
            "conditions": [
                {"path": "hour", "op": "eq", "value": 3},
                {"path": "hour", "op": "eq", "value": 4},
            ],
        },
        {**_LAMP, "conditions": [{"path": "hour", "op": "eq", "value": 3}]},
    ),
    native(
        "conditions-contradict",
        {**_TOWER, "conditions_text": ["tb.力量 > 10 and tb.力量 < 5"]},
        {**_TOWER, "conditions_text": ["tb.力量 > 5 and tb.力量 < 10"]},
        "zh",
    ),
    native(
        "condition-unreadable",
        {**_LAMP, "conditions_text": ["tb.hour >"]},
        {**_LAMP, "conditions_text": ["tb.hour > 3"]},
    ),
    several(
        "path-misspelled",
        "native",
        [
            {"id": n, "content": f"The {n} room.", "keys": [f"{n} room"], "conditions_text": [text]}
            for n, text in (
                ("red", "tb.weather.storm = true"),
                ("blue", "tb.weather.storm = false"),
                ("green", "tb.wether.storm = true"),
            )
        ],
        [
            {"id": n, "content": f"The {n} room.", "keys": [f"{n} room"], "conditions_text": [text]}
            for n, text in (
                ("red", "tb.weather.storm = true"),
                ("blue", "tb.weather.storm2 = false"),
                ("green", "tb.weather.storm1 = true"),
            )
        ],
    ),
    # Other entries.
    several(
        "requires-unavailable",
        "native",
        [
            {"id": "it", "content": "Its oil.", "keys": ["oil lamp"], "requires": ["off"]},
            {"id": "off", "content": "A lamp.", "keys": ["lantern"], "enabled": False},
        ],
        [
            {"id": "it", "content": "Its oil.", "keys": ["oil lamp"], "requires": ["off"]},
            {"id": "off", "content": "A lamp.", "keys": ["lantern"]},
        ],
    ),
    several(
        "group-never-wins",
        "native",
        [
            {"id": "a", "content": "白天。", "constant": True, "conflict_key": "时辰"},
            {"id": "b", "content": "黑夜。", "keys": ["黑夜"], "conflict_key": "时辰"},
        ],
        [
            {"id": "a", "content": "白天。", "keys": ["白天"], "conflict_key": "时辰"},
            {"id": "b", "content": "黑夜。", "keys": ["黑夜"], "conflict_key": "时辰"},
        ],
        "zh",
    ),
    several(
        "group-never-wins",
        "st",
        [
            {"key": ["noon"], "content": "Bright.", "group": "hour"},
            {"key": ["dusk"], "content": "Dim.", "group": "hour", "groupWeight": 0},
        ],
        [
            {"key": ["noon"], "content": "Bright.", "group": "hour"},
            {"key": ["dusk"], "content": "Dim.", "group": "hour", "groupWeight": 5},
        ],
    ),
    st("group-of-one", {**_ST_TOWER, "group": "时辰"}, _ST_TOWER, "zh"),
    # Recursion.
    st(
        "recursion-unreachable",
        {**_ST_LAMP, "delayUntilRecursion": True, "excludeRecursion": True},
        {**_ST_LAMP, "delayUntilRecursion": True},
    ),
    several(
        "recursion-cycle",
        "st",
        [
            {"key": ["灯塔"], "content": "灯塔由哑女看守。"},
            {"key": ["哑女"], "content": "哑女守着灯塔。"},
        ],
        [
            {"key": ["灯塔"], "content": "灯塔由哑女看守。"},
            {"key": ["哑女"], "content": "哑女不说话。"},
        ],
        "zh",
    ),
    several(
        "recursion-fan-out",
        "st",
        [
            {"key": ["roster"], "content": "ferry, mill, abbot and lamp"},
            {"key": ["lamp"], "content": "It smokes."},
        ],
        [
            {"key": ["roster"], "content": "ferry and mill"},
            {"key": ["lamp"], "content": "It smokes."},
        ],
    ),
    # Chance, depth and timers.
    native("probability-zero", {**_LAMP, "probability": 0}, {**_LAMP, "probability": 1}),
    st(
        "probability-zero",
        {**_ST_TOWER, "probability": 0},
        {**_ST_TOWER, "probability": 0, "useProbability": False},
        "zh",
    ),
    native("scan-depth-zero", {**_LAMP, "scan_depth": 0}, {**_LAMP, "scan_depth": 1}),
    st("scan-depth-zero", {**_ST_TOWER, "scanDepth": 0}, {**_ST_TOWER, "scanDepth": 2}, "zh"),
    st("delay-unreachable", {**_ST_LAMP, "delay": 100_000}, {**_ST_LAMP, "delay": 20}),
    st(
        "timer-without-effect",
        {"constant": True, "sticky": 3},
        {**_ST_TOWER, "sticky": 3},
        "zh",
    ),
    several(
        "timers-contradict",
        "st",
        [
            {"key": ["noon"], "content": "Bright.", "group": "hour", "sticky": 3, "cooldown": 5},
            {"key": ["dusk"], "content": "Dim.", "group": "hour"},
        ],
        [
            {"key": ["noon"], "content": "Bright.", "group": "hour", "sticky": 3},
            {"key": ["dusk"], "content": "Dim.", "group": "hour"},
        ],
    ),
    # Contents.
    native("content-empty", {**_LAMP, "content": " \n"}, _LAMP),
    st("content-empty", {**_ST_TOWER, "content": ""}, _ST_TOWER, "zh"),
    native("content-repeated", {**_LAMP, "content": "A flat  boat."}, _LAMP),
    st("content-repeated", {**_ST_TOWER, "content": "木船靠在岸边。"}, _ST_TOWER, "zh"),
    native("content-hidden-character", {**_LAMP, "content": "The\u202e lamp"}, _LAMP),
    st(
        "content-hidden-character",
        {**_ST_TOWER, "content": "灯\u200b塔"},
        {**_ST_TOWER, "content": "👩\u200d🚀登上灯塔"},
        "zh",
    ),
    native(
        "macro-without-value",
        {**_LAMP, "content": "It is {{weekday}}."},
        {**_LAMP, "content": "{{user}} lights it."},
    ),
    st(
        "macro-without-value",
        {**_ST_TOWER, "content": "{{usr}}点亮了它。"},
        {**_ST_TOWER, "content": "{{user}}点亮了它。"},
        "zh",
    ),
    # Costs and places.
    native("constants-over-share", {"constant": True, "content": _LONG}, {"constant": True}),
    st("constants-over-share", {"constant": True, "content": _LONG_ZH}, {"constant": True}, "zh"),
    native("entry-over-budget", {**_LAMP, "content": _LONG}, _LAMP),
    several(
        "wrapper-cost",
        "native",
        _TINY,
        [{**each, "content": f"{each['content']} " + _LONG[:800]} for each in _TINY[:1]],
    ),
    st("outlet-without-name", {**_ST_LAMP, "position": 7}, {**_ST_LAMP, "position": 1}),
    st("place-unknown", {**_ST_LAMP, "position": None}, _ST_LAMP),
    native("audience-empty", {**_LAMP, "audience": []}, _LAMP),
    native(
        "needs-other-program",
        {**_TOWER, "runtime_requirements": ["ejs"]},
        _TOWER,
        "zh",
    ),
    native("rule-ignored", {**_LAMP, "sillytavern": {"sticky": 3}}, _LAMP),
)
