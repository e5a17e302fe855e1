"""One card gives the same book from every container and under both specifications."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, strategies as st

from lorewell import ImportedBook, import_file
from pictures import charx, encoded, png, text, webp, ztxt
from property.foreign import raw_entries
from property.strategies import ANY_TEXT, SENTENCES
from property.test_import import ENTRIES, VALUES

JPEG = b"\xff\xd8\xff\xe0\0\x04JF\xff\xd9"
SPECS = {"chara_card_v2": "2.0", "chara_card_v3": "3.0"}
TEXTS = SENTENCES | ANY_TEXT
DATA = st.fixed_dictionaries(
    {
        "name": TEXTS,
        "description": TEXTS,
        "character_book": st.fixed_dictionaries(
            {"entries": st.lists(raw_entries(), max_size=4) | ENTRIES},
            optional={
                "name": TEXTS,
                "description": TEXTS,
                "extensions": VALUES,
                "scan_depth": VALUES,
            },
        ),
    },
    optional={"tags": VALUES, "extensions": VALUES, "first_mes": TEXTS},
)


def files(data: dict[str, Any]) -> dict[str, bytes]:
    """Return the card in all containers, by the spec that its reader is to take and a word."""
    v2, v3 = ({"spec": s, "spec_version": version, "data": data} for s, version in SPECS.items())
    return {
        "chara_card_v2 JSON": json.dumps(v2).encode(),
        "chara_card_v3 JSON": json.dumps(v3).encode(),
        "chara_card_v3 UTF-16": json.dumps(v3, ensure_ascii=True).encode("utf-16"),
        "chara_card_v2 PNG": png(text(v2)),
        "chara_card_v3 PNG": png(text(v3, "ccv3")),
        "chara_card_v3 PNG with V3 in chara": png(text(v3)),
        "chara_card_v3 PNG with both": png(text(v2), text(v3, "ccv3")),
        "chara_card_v3 PNG with both, in turn": png(text(v3, "ccv3"), after=[text(v2)]),
        "chara_card_v2 PNG, deflated": png(ztxt(encoded(v2))),
        "chara_card_v2 WebP": webp(v2),
        "chara_card_v3 charx": charx(v3, "assets/灯.png"),
        "chara_card_v3 JPEG": JPEG + charx(v3),
    }


def entries(found: ImportedBook, spec: str) -> list[dict[str, Any]]:
    """Return the entries without the word of their card's specification, which must be right."""
    dumped = [entry.model_dump() for entry in found.book.entries]
    assert [entry["source"].pop("format") for entry in dumped] == [spec] * len(dumped)
    return dumped


@given(DATA)
def test_same_card_gives_equal_entries_whatever_holds_it(data: dict[str, Any]) -> None:
    founds = {what: import_file(file, name="oda.card") for what, file in files(data).items()}
    first = founds["chara_card_v2 JSON"]
    for what, found in founds.items():
        assert entries(found, what.split()[0]) == entries(first, "chara_card_v2"), what
        assert found.book.model_copy(update={"entries": ()}) == first.book.model_copy(
            update={"entries": ()}
        )
        told = [warning for warning in found.report.warnings if warning.code != "utf16"]
        assert told == list(first.report.warnings)
        assert found.report.enabled_count == first.report.enabled_count
        assert [b.entry_id for b in found.report.blocked] == [
            b.entry_id for b in first.report.blocked
        ]
