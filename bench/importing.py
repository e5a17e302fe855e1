"""Times the import of large files of another program, compared with parsing their JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from bench.plan import Plan
from bench.report import Section, Target, ms
from bench.timing import Candidate, measure
from lorewell import import_file

MEGA: Final = 1_000_000
LIMIT_MS: Final = 1_000  # for 5 MB
LIMIT_BYTES: Final = 5 * MEGA
SENTENCES = (
    "The lamp above the harbour burns until the last boat is home. ",
    "灯塔由哑女看守，雾夜里她从不离开。",
    "ประภาคารส่องแสงตลอดคืนที่มีหมอก ",
    "Смотритель маяка ведёт журнал каждую ночь. ",
    "港の灯りは朝まで消えない。",
    "등대의 불빛은 안개 속에서도 보인다. ",
    "🏮⚓ ",
)
DYNAMIC = (
    "{{random::a::b}} {{getvar::storm}} ",
    "<%_ if (getvar('stat_data.storm') > 5) { _%>stormy<%_ } _%> ",
    "_.set('storm', 1, 2);//wind ",
    "{{char}} looks at {{user}}. ",
)
REGEX_KEYS = (r"/\bharbou?rs?\b/i", "/灯塔|ランプ/u", r"/(?<=old )lamp/")
FLAGS = (
    *("vectorized", "ignoreBudget", "excludeRecursion", "preventRecursion", "groupOverride"),
    *("matchPersonaDescription", "matchCharacterDescription", "matchCharacterPersonality"),
    *("matchCharacterDepthPrompt", "matchScenario", "matchCreatorNotes"),
)

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of world file.

    Attributes:
        name: label in the report.
        content_bytes: minimum size of an entry's content.
        fields: makes the other fields of an entry from its number.
        pieces: of which contents are composed.
    """

    name: str
    content_bytes: int
    fields: Callable[[int], Entry]
    pieces: tuple[str, ...] = SENTENCES


def _few(uid: int) -> Entry:
    return {
        "uid": uid,
        "key": [f"lamp {uid}", f"灯{uid}"],
        "keysecondary": [],
        "comment": f"Lamp {uid}",
        "constant": False,
        "selective": True,
        "order": 100,
        "position": 0,
        "disable": False,
    }


def _many(uid: int) -> Entry:
    return {
        **_few(uid),
        "key": [f"lamp {uid}", REGEX_KEYS[uid % len(REGEX_KEYS)]],
        "keysecondary": [f"oil {uid}", f"หมอก{uid}"],
        "selectiveLogic": uid % 4,
        "addMemo": True,
        "position": uid % 7,
        "depth": 4,
        "role": 0,
        "probability": 50,
        "useProbability": True,
        "delayUntilRecursion": 0,
        "group": f"group {uid % 9}",
        "groupWeight": 100,
        "scanDepth": None,
        "caseSensitive": None,
        "matchWholeWords": None,
        "useGroupScoring": None,
        "automationId": "",
        "sticky": uid % 3,
        "cooldown": 0,
        "delay": 0,
        "displayIndex": uid,
        "triggers": [],
        "characterFilter": {"isExclude": False, "names": [], "tags": []},
        "extensions": {"position": 0, "display_index": uid},
        **dict.fromkeys(FLAGS, False),
    }


SHAPES: Final[Mapping[str, Shape]] = {
    "small": Shape("entries of 1 KB", 770, _few),
    "large": Shape("entries of 10 KB", 9_700, _few),
    "rich": Shape("all fields, regex keys, macros", 1_000, _many, (*SENTENCES, *DYNAMIC)),
}


def importing(plan: Plan) -> Section:
    """Measure the import of large files, from bytes to the book and its report as JSON."""
    files = {name: world(shape, plan.imported_bytes) for name, shape in SHAPES.items()}
    calls: dict[str, Callable[[], object]] = {}
    for name, file in files.items():
        calls[name] = partial(_imported, file)
        calls[f"{name}_json"] = partial(json.loads, file)
    samples = measure({name: Candidate(call) for name, call in calls.items()}, plan.compile_rounds)
    ratios = {n: samples[n].median_ms / samples[f"{n}_json"].median_ms for n in files}
    rows, wrong = [], []
    for name, file in files.items():
        entries = list(json.loads(file)["entries"].values())
        book = import_file(file, name=f"{name}.json").book
        if [entry.content for entry in book.entries] != [entry["content"] for entry in entries]:
            wrong.append(f"import, {SHAPES[name].name}")
        times = (samples[name].best_ms, samples[name].median_ms, samples[f"{name}_json"].median_ms)
        label = f"{len(entries):,} {SHAPES[name].name}"
        rows.append([label, *map(ms, times), f"{ratios[name]:,.0f}x"])
    slowest = max(samples[name].median_ms for name in files)
    limit = LIMIT_MS * plan.imported_bytes / LIMIT_BYTES
    size = f"{plan.imported_bytes / MEGA:g} MB"
    return Section(
        name="import",
        title=f"Importing a world file of {size}, with its report",
        header=("", "best ms", "median ms", "JSON only", "ratio"),
        rows=rows,
        figures={**{name: each.figures() for name, each in samples.items()}, "ratios": ratios},
        wrong=tuple(wrong),
        targets=(
            Target(
                name=f"import {size}, the slowest shape",
                found=f"{slowest:,.0f} ms",
                wanted=f"< {limit:,.0f} ms",
                met=slowest < limit,
            ),
        ),
    )


def _imported(file: bytes) -> str:
    return import_file(file, name="harbour.json").report.model_dump_json()


def world(shape: Shape, size_bytes: int) -> bytes:
    """Return a world file of about this size; the same bytes on every call."""
    random = Random(7)
    entries: dict[str, Entry] = {}
    left = size_bytes
    while left > 0:
        uid = len(entries)
        entry = {**shape.fields(uid), "content": _content(random, shape)}
        entries[str(uid)] = entry
        left -= len(_dumped(entry)) + len(f'"{uid}": , ')
    return _dumped({"entries": entries})


def _content(random: Random, shape: Shape) -> str:
    pieces: list[str] = []
    left = shape.content_bytes
    while left > 0:
        pieces.append(random.choice(shape.pieces))
        left -= len(pieces[-1].encode())
    return "".join(pieces)


def _dumped(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()
