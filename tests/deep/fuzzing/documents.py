"""Seeds: a small document or two of every kind that is read, in many scripts, made up by us."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lorewell.engine.sillytavern.entry.table import TABLE
from lorewell.formats.detect import CARDS, FileKind
from lorewell.model import Entry
from lorewell.model.sillytavern import SillyTavernBlock

_WORLD_ENTRY: Final = {
    "uid": 7,
    "key": ["灯塔", "/маяк|φάρος/iu"],
    "keysecondary": ["雾"],
    "comment": "灯塔 🏮",
    "content": "@@depth 2\nThe lamp of ประภาคาร burns. {{user}} <% go() %>",
    "constant": False,
    "selective": True,
    "selectiveLogic": 3,
    "order": 100,
    "position": 4,
    "depth": 2,
    "role": None,
    "disable": False,
    "probability": 50,
    "useProbability": True,
    "group": "港",
    "groupWeight": 70,
    "scanDepth": 3,
    "caseSensitive": None,
    "sticky": 2,
    "delayUntilRecursion": True,
    "triggers": ["normal"],
    "characterFilter": {"isExclude": False, "names": ["Мара"], "tags": []},
    "extensions": {"lorewell": {"priority": 3}, "未知": [1.5]},
}
_CARD_ENTRY: Final = {
    "id": 3,
    "keys": ["lamp", "ตะเกียง"],
    "secondary_keys": ["ランプ"],
    "name": "Лампа",
    "comment": "",
    "content": "灯。",
    "enabled": True,
    "insertion_order": 10,
    "priority": -1,
    "constant": False,
    "selective": False,
    "case_sensitive": True,
    "use_regex": True,
    "position": "after_char",
    "extensions": {"position": 1, "depth": 4, "useProbability": True, "match_scenario": True},
}
_BOOK: Final = {
    "name": "港",
    "description": "Was der Fährmann weiß",
    "scan_depth": 4,
    "token_budget": 500,
    "recursive_scanning": False,
    "extensions": {"🧭": None},
    "entries": [_CARD_ENTRY, {"id": 3, "enabled": False, "content": "été", "insertion_order": 1}],
}
_CHARACTER: Final = {"name": "Ода", "description": "เรือ", "first_mes": "你好", "tags": ["🌊"]}
_NAI_BOOK: Final = {
    "lorebookVersion": 6,
    "entries": [
        {
            "text": "The ferry, 渡し船, leaves at dusk.",
            "displayName": "Паром",
            "keys": ["ferry & dusk", "/渡し?船/u"],
            "enabled": True,
            "forceActivation": True,
            "searchRange": 800,
            "category": "c1",
            "id": "e-1",
            "contextConfig": {"prefix": "·", "suffix": "\n", "budgetPriority": 300},
            "loreBiasGroups": [{"phrases": [{"sequence": "雾"}]}],
        },
        {},
    ],
    "settings": {"orderByKeyLocations": False},
    "categories": [{"name": "船", "id": "c1", "enabled": False}],
}
_AGNAI_BOOK: Final = {
    "kind": "memory",
    "name": "記憶",
    "description": "",
    "entries": [
        {
            "name": "Колокол",
            "entry": "ระฆัง rings thrice.",
            "keywords": ["bell", "钟声"],
            "priority": 2,
            "weight": 9,
            "enabled": True,
            "position": "after_char",
        }
    ],
}
_RISU_ENTRY: Final = {
    "key": "eel, 鰻",
    "secondkey": "sea",
    "insertorder": 20,
    "comment": "угорь",
    "content": "Eels hide under ท่าเรือ.",
    "mode": "normal",
    "alwaysActive": False,
    "selective": True,
    "useRegex": False,
    "activationPercent": 40,
    "id": "a",
    "extentions": {"risu_case_sensitive": True},  # codespell:ignore extentions
}
_RISU_OTHERS: Final = [
    {"key": "\uf000folder:x", "mode": "folder", "comment": "箱", "content": "", "insertorder": 0},
    {"key": "", "mode": "child", "id": "a", "content": "", "insertorder": 1},
]
_KOBOLD_ENTRY: Final = {
    "key": "fog, 霧",
    "keysecondary": "",
    "keyanti": "sun",
    "content": "Туман rolls in.",
    "comment": "หมอก",
    "folder": None,
    "selective": False,
    "constant": False,
    "probability": "80",
    "wigroup": "w",
    "widisabled": False,
}
_REPLICA_ENTRY: Final = {
    "uid": "b3f0",
    "content": "码头的钟。",
    "comment": "пристань",
    "trigger_config": {
        "triggers": {
            "constant": [False, None],
            "keyword": [True, {"key": ["码头"], "keysecondary": [], "selectiveLogic": 1}],
            "rag": [True, {"threshold": 0.75}],
            "condition": [True, {"conditions": [{"text": "tb.力量 > 10"}, {"text": "tb. 包括"}]}],
        }
    },
    "order": 5,
    "position": 5,
    "depth": 4,
    "role": 0,
    "probability": 100,
    "group": ["ก"],
    "disable": False,
}
_TRIPLE: Final = {"variable_a": "力量", "operator": "大于", "variable_b": "10"}
_REPLICA_OLDER: Final = {
    "uid": "9",
    "activationType": "logic",
    "logicExpression": {"variable1": "a", "operator": "equals", "variable2": "b"},
    "key": ["鐘"],
    "position": "after_char",
    "group": None,
}

DOCUMENTS: Final[Mapping[FileKind, tuple[Any, ...]]] = {
    FileKind.ST_WORLD: (
        {"entries": {"7": _WORLD_ENTRY, "未": {"uid": 7, "key": "a, 雾"}}, "name": "霧", "k": 1},
    ),
    FileKind.CHARACTER_BOOK: (_BOOK, {"entries": [_WORLD_ENTRY]}),
    FileKind.LOREBOOK_V3: ({"spec": "lorebook_v3", "data": _BOOK},),
    FileKind.CARD_V1: (_CHARACTER, {**_CHARACTER, "character_book": _BOOK}),
    FileKind.CARD_V2: (
        {
            "spec": "chara_card_v2",
            "spec_version": "2.0",
            **_CHARACTER,
            "data": {**_CHARACTER, "character_book": _BOOK},
        },
    ),
    FileKind.CARD_V3: (
        {
            "spec": "chara_card_v3",
            "spec_version": "3.0",
            "data": {
                **_CHARACTER,
                "assets": [{"type": "icon", "uri": "ccdefault:", "name": "主", "ext": "png"}],
                "character_book": {"entries": [{**_CARD_ENTRY, "content": "@@position x\n灯"}]},
            },
        },
        {"spec": "chara_card_v3", "data": _CHARACTER},
    ),
    FileKind.NAI_LOREBOOK: (_NAI_BOOK,),
    FileKind.NAI_STORY: (
        {
            "storyContainerVersion": 1,
            "metadata": {"title": "渡"},
            "content": {"lorebook": _NAI_BOOK},
        },
        {"scenarioVersion": 3, "title": "παραμύθι", "lorebook": _NAI_BOOK},
    ),
    FileKind.AGNAI_MEMORY: (_AGNAI_BOOK,),
    FileKind.AGNAI_CHARACTER: (
        {"kind": "character", "name": "Мара", "characterBook": _AGNAI_BOOK},
    ),
    FileKind.RISU: (
        {"type": "risu", "ver": 1, "data": [_RISU_ENTRY, *_RISU_OTHERS]},
        [_RISU_ENTRY, {**_RISU_ENTRY, "useRegex": True, "key": "/a,鰻/i"}],
    ),
    FileKind.RISU_MODULE: (
        {"type": "risuModule", "module": {"name": "箱", "lorebook": [_RISU_ENTRY]}},
    ),
    FileKind.BACKYARD: (
        {
            "schemaVersion": 1,
            "name": "mara",
            "displayName": "Мара",
            "persona": "灯",
            "loreItems": [{"key": "lamp, 灯", "value": "{user} lights it for {character}."}],
        },
    ),
    FileKind.TAVERN_HELPER: (
        {
            "entries": [
                {
                    "uid": 3,
                    "name": "灯塔",
                    "enabled": True,
                    "strategy": {
                        "type": "selective",
                        "keys": ["灯"],
                        "keys_secondary": {"logic": "not_any", "keys": ["雾"]},
                        "scan_depth": "same_as_global",
                    },
                    "position": {"type": "at_depth", "role": "user", "depth": 2, "order": 7},
                    "content": "ประภาคาร",
                    "probability": 90,
                    "recursion": {"prevent_incoming": True, "delay_until": 1},
                    "effect": {"sticky": 2},
                }
            ]
        },
    ),
    FileKind.KOBOLD: (
        {"gamestarted": True, "prompt": "夜", "actions": [], "worldinfo": [_KOBOLD_ENTRY]},
        {"savedsettings": {}, "worldinfo": [_KOBOLD_ENTRY]},
        {
            "folders": {"港": [1]},
            "entries": {"1": {"uid": 1, "title": "霧", "key": ["fog"], "folder": "港", "wpp": {}}},
        },
        [{"key": "霧", "content": "fog"}],
    ),
    FileKind.AIDUNGEON_WI: (
        [{"id": "1", "keys": "Oda|( |the )pilot#[t=5], 灯", "entry": "ผู้นำร่อง", "hidden": False}],
        [{"keys": "ferry", "value": "паром", "type": "place", "title": "渡口", "description": ""}],
    ),
    FileKind.JANITOR: (
        [
            {
                "id": 5,
                "name": "Чайка",
                "key": ["gull", "鷗"],
                "keysRaw": "gull, 鷗",
                "keysecondary": [],
                "keysecondaryRaw": "นก",
                "content": "Gulls 🕊️ steal.",
                "enabled": True,
                "constant": False,
                "case_sensitive": False,
                "matchWholeWords": True,
                "selectiveLogic": 0,
                "insertion_order": 3,
                "priority": 4,
                "probability": 90,
                "groupWeight": 100,
                "inclusionGroupRaw": "鳥, b",
                "minMessages": 2,
                "activationMode": "standard",
                "activationScript": "return 1",
            }
        ],
    ),
    FileKind.PYGMALION: (
        {"char_name": "Ода", "char_persona": "船員", "char_greeting": "สวัสดี"},
        {"name": "Oda", "context": "Oda's Persona: 船", "greeting": "hei"},
    ),
    FileKind.REPLICA: (
        {"id": "u", "name": "世界", "entries": [_REPLICA_ENTRY, _REPLICA_OLDER], "version": 1},
        {
            "name": "мир",
            "entries": {"9": _REPLICA_OLDER, "b\x7f": {"key": "灯, 塔", "position": 0}},
        },
        {"entries": [{"trigger_config": {"triggers": {"condition": [True, _TRIPLE]}}}]},
    ),
}
# Our own format is a format too.
NATIVE_DOCUMENTS: Final[tuple[Any, ...]] = (
    {
        "name": "雾隐渡",
        "description": "ท่าเรือ",
        "metadata": {"ноты": [1.5]},
        "entries": [
            {
                "id": "灯塔",
                "title": "Маяк 🏮",
                "content": "{{char}} keeps the lamp.",
                "keys": ["lamp", "/灯|φάρος/iu"],
                "secondary_keys": ["霧"],
                "selective": True,
                "logic": "not_all",
                "required": True,
                "probability": 12.5,
                "scan_depth": 3,
                "conditions": [
                    {"path": "weather.天", "op": "in", "value": ["雨", 2, None]},
                    {"path": "bell", "op": "exists"},
                ],
                "requires": ["b"],
                "conflict_key": "group:港",
                "audience": ["actor", "役者"],
                "position": "outlet",
                "outlet_name": "棚",
                "runtime_requirements": ["ejs"],
                "sillytavern": {"sticky": 2, "group_weight": 50, "inherit": ["case_sensitive"]},
                "replica": {"position": 4},
            },
            {"id": "b", "content": "été", "priority": 3, "order": -2, "position": "at_depth"},
        ],
    },
    {"name": "Harbour", "entries": [{"content": "灯"}, {"content": ""}]},
)
CARD_DOCUMENTS: Final = [each for kind in FileKind if kind in CARDS for each in DOCUMENTS[kind]]


def as_bytes(document: object) -> bytes:
    """Return a document as a file holds it."""
    return json.dumps(document, ensure_ascii=False).encode()


def _names(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield name
            yield from _names(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _names(below)


# All that programs call their members, wherever they put them.
NAMES: Final = sorted(
    {
        *_names([*DOCUMENTS.values(), NATIVE_DOCUMENTS]),
        *Entry.model_fields,
        *SillyTavernBlock.model_fields,
        *(step for field in TABLE for name in field.names["card"] for step in name.path.split("/")),
        *("manual_text", "use_wpp", "ragConfig", "variable_a", "operator", "variable_b", "text"),
        *("keywordsRaw", "prioritizeInclusion", "keyMatchPriority", "current_wi", "originalData"),
        *("world", "depth_prompt", "regex_scripts", "TavernHelper_scripts", "chub", "given_name"),
        *("audience", "conditions", "requires", "conflict_key", "runtime_requirements", "raw", ""),
    }
)
