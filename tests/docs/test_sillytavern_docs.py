"""docs/sillytavern.md names real cases, and every event and switch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from conform import ALL_CASES, load_cases
from lorewell.model.activate import Mending
from lorewell.model.activated import EventKind

MANUAL = (Path(__file__).parents[2] / "docs" / "sillytavern.md").read_text(encoding="utf-8")
NAMES = set(re.findall(r"`([^`\n]+)`", MANUAL))


def test_golden_cases_are_there() -> None:
    known = {case["id"] for case in load_cases(*ALL_CASES)}
    cited = {name for name in NAMES if re.fullmatch(r"[a-z_]+-[0-9]{3}", name)}
    assert cited
    assert cited <= known


def test_every_event_is_explained() -> None:
    kinds = {kind for part in get_args(EventKind) for kind in get_args(part) or (part,)}
    assert "loop" in kinds
    assert kinds <= NAMES


def test_every_switch_is_explained() -> None:
    assert set(Mending.model_fields) <= NAMES
