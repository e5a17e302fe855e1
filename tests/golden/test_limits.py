"""No file takes more than a second of the processor and 64 MiB, least of all a broken one.

Each is read in a process that is measured from outside of Python (tests/measured.py): memory that
zlib or lzma take counts, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import measured
from golden.test_corpus import BROKEN, CORPUS, items
from pictures import chunk, png, text

LIMIT_S = 1.0
LIMIT_BYTES = 64 * 2**20
ENTRY = '{"uid": 1, "key": ["灯", "ประภาคาร"], "content": "🏮"},'

BOMB = zlib.compress(b" " * 2**27)

pytestmark = pytest.mark.skipif(not measured.STATUS.exists(), reason="only Linux reports memory")


def costs(files: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return what each file took, under its name."""
    command = [sys.executable, measured.__file__]
    listed = json.dumps(files)
    done = subprocess.run(command, input=listed, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [{"file": name, **cost} for (name, _), cost in zip(files, found, strict=True)]


def is_too_much(cost: dict[str, Any]) -> bool:
    return bool(cost["cpu_s"] >= LIMIT_S or cost["grown_bytes"] >= LIMIT_BYTES)


def too_much(files: list[tuple[str, str]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was too much, and was so again: a busy machine slows processors down, too."""
    suspects = [file for file, cost in zip(files, found, strict=True) if is_too_much(cost)]
    return [cost for cost in costs(suspects) if is_too_much(cost)] if suspects else []


def test_corpus_is_read_within_bounds() -> None:
    files = [
        (f"{folder}/{item['file']}", str(CORPUS / folder / item["file"]))
        for folder, item in items()
    ]
    if not files:
        pytest.skip(f"there is no corpus in {CORPUS}")
    found = costs(files)
    for figure in ("cpu_s", "grown_bytes"):
        for each in sorted(found, key=lambda cost: cost[figure], reverse=True)[:5]:
            print(f"{figure}: {each}")
    assert any(each["file"].startswith(BROKEN) for each in found)
    assert too_much(files, found) == []


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("deep.json", b"[" * 1_000_000, "ImportInvalidError"),
        ("deep.yaml", b"- " * 500_000, "ImportInvalidError"),
        ("aliases.yaml", b"a: &a [x, x]\n" + b"b: [*a, *a]\n" * 9, "ImportInvalidError"),
        ("tags.yaml", b"%TAG ! x\n" * 100_000 + b"--- a", "ImportInvalidError"),
        ("bomb.png", png(chunk(b"zTXt", b"chara\0\0" + BOMB)), "ImportInvalidError"),
        ("two.png", png(text({}), chunk(b"iTXt", b"ccv3\0\1\0\0\0" + BOMB)), "ImportInvalidError"),
        ("many.json", f"[{ENTRY * 5_000}1]".encode(), "ImportInvalidError"),
        ("2000.json", f'{{"entries": [{ENTRY * 1_999}null]}}'.encode(), None),
    ],
)
def test_made_up_file_is_read_within_bounds(
    name: str, data: bytes, error: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    files = [(name, str(path))]
    found = costs(files)
    assert found[0]["error"] == error
    assert too_much(files, found) == []


def test_what_is_too_much_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"entries": [{"x": "🏮' + "a" * 12_000_000 + '"}]}', "utf-8")
    (found,) = costs([("large.json", str(path))])
    assert found["grown_bytes"] > LIMIT_BYTES
    assert is_too_much(found)
