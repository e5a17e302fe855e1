"""Nothing in a file reaches the file system, the network or an interpreter.

Every file of the corpus and our own made-up ones are read, converted and written in a process
that is watched (tests/sealed.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import sealed
from golden.test_corpus import CORPUS, items
from pictures import charx, encoded, png, text, webp, ztxt

CODE = "__import__('os').system('touch /tmp/灯')"
PLACES = [
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\Windows\\win.ini",
    "\\\\host\\灯",
    "~/.ssh/id_rsa",
]
LINKS = ["file:///etc/passwd", "http://127.0.0.1:9/灯", "https://localhost/x.png", "//host/share"]
SIGNS = [
    *PLACES,
    *LINKS,
    CODE,
    "<script>fetch('http://localhost/')</script>",
    "<img src=x onerror=alert(1)>",
    "<% require('fs').readFileSync('/etc/passwd') %>",
    "{{eval::1+1}} {{setvar::a::b}} ${7*7} {{7*7}}",
    "@@activate\n@@depth 1",
    "/(a+)+$/",
    "/(?<name>灯)\\k<name>/u",
    "__proto__",
    "%(asctime)s {0.__class__.__mro__}",
    "[ไฟล์](file:///etc/hostname)",
]


def book(sign: str) -> dict[str, Any]:
    entry = {
        "id": sign,
        "keys": [sign, "/灯+/i"],
        "secondary_keys": [sign],
        "content": sign,
        "comment": sign,
        "enabled": True,
        "insertion_order": 1,
        "extensions": {"automation_id": sign, "outlet_name": sign, "position": 7, sign: sign},
    }
    return {
        "name": sign,
        "description": sign,
        "entries": [entry, {**entry, "logicExpression": sign}],
    }


def card(sign: str) -> dict[str, Any]:
    data = {
        "name": sign,
        "character_book": book(sign),
        "assets": [{"type": "icon", "uri": sign, "name": sign, "ext": "png"}],
        "extensions": {"regex_scripts": [{"findRegex": sign}], "world": sign},
    }
    return {"spec": "chara_card_v3", "spec_version": "3.0", "data": data, "avatar": sign}


def made_up() -> dict[str, bytes]:
    """Return hostile files by the names under which they are read."""
    files: dict[str, bytes] = {}
    for sign in SIGNS:
        as_card, as_json = card(sign), json.dumps(card(sign)).encode()
        files[f"{sign}.json"] = as_json
        files[f"{sign}.world"] = json.dumps({"entries": {sign: book(sign)["entries"][0]}}).encode()
        files[f"{sign}.story"] = json.dumps({"lorebookVersion": 5, "entries": sign}).encode()
        files[f"{sign}.yaml"] = (
            f"name: {json.dumps(sign)}\ngreeting: !!python/name:os {{}}".encode()
        )
        files[f"{sign}.yml"] = as_json[:-1] + b", # \n a: b}"
        files[f"{sign}.png"] = png(text(as_card), text(as_card, "ccv3"), ztxt(encoded(as_card)))
        files[f"{sign}.webp"] = webp(as_card)
        files[f"{sign}.charx"] = charx(as_card, *PLACES, "assets/灯.png", "module.risum")
        files[f"{sign}.jpg"] = b"\xff\xd8\xff\xd9" + charx(as_card)
    triggers = {"condition": [True, {"conditions": [{"text": CODE}, {"text": "tb.a > 1"}]}]}
    replica = {"entries": [{"uid": "灯", "trigger_config": {"triggers": triggers}}]}
    files["replica.json"] = json.dumps(replica).encode()
    files["python.yaml"] = b"!!python/object/apply:os.system ['true']"
    files["nothing"] = b""
    return files


def stored(files: dict[str, bytes], folder: Path) -> list[tuple[str, str]]:
    """Store files under numbers; return the names under which they are read, and the paths."""
    paths = [(name, folder / str(number)) for number, name in enumerate(files)]
    for name, path in paths:
        path.write_bytes(files[name])
    return [(name, str(path)) for name, path in paths]


def watched(files: list[tuple[str, str]]) -> Any:
    command = [sys.executable, sealed.__file__]
    listed = json.dumps(files)
    done = subprocess.run(command, input=listed, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_in_a_file_reaches_the_outside(tmp_path: Path) -> None:
    corpus = [(item["file"], str(CORPUS / folder / item["file"])) for folder, item in items()]
    files = [*corpus, *stored(made_up(), tmp_path)]
    assert watched(files)["found"] == {"files": len(files), "written": [], "has_v8": False}


def test_watch_sees_what_reaches_out_and_tells_nobody() -> None:
    traps = watched([])["traps"]
    assert set(traps) == set(sealed.TRAPS)
    assert all(traps.values()), traps
