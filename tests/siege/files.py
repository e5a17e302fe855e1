"""Attacks on imports and bodies: files and JSON that cost more to read than to send."""

from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib
from typing import Any

from pictures import SIGNATURE, chunk, itxt, png, text, ztxt
from siege.acts import ask
from siege.attack import Attack, Blow, Site

Json = Any
_MIB = 1024 * 1024
_BOOKS, _PREVIEW, _FILES = "/v1/books", "/v1/imports/preview", "/v1/imports/files"


def _written(document: Json) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def _file(site: Site, document: Json | bytes, name: str = "w.json") -> Blow:
    data = document if isinstance(document, bytes) else _written(document)
    return ask, site.form(_PREVIEW, name, data)


def _world(*entries: Json) -> Json:
    return {"entries": {str(n): {"uid": n, "content": "x", **e} for n, e in enumerate(entries)}}


def _brackets(site: Site) -> list[Blow]:
    key = "/" + "[" * site.size(20_000) + "/"
    turn = {
        "books": [{"name": "w", "entries": {"0": {"uid": 0, "key": [key] * 350}}}],
        "chat": [{"content": "a"}],
        "context_tokens": 8_000,
    }
    return [
        _file(site, _world({"key": [key] * 350})),
        (ask, site.post("/v1/sillytavern/activate", turn)),
    ]


def _commas(site: Site) -> list[Blow]:
    commas = "," * site.size(14_000_000)
    kobold = [{"key": commas, "keysecondary": "", "content": "x", "selective": False}]
    return [
        _file(site, _world({"key": commas})),
        _file(site, _world({"key": ["a"], "group": commas})),
        _file(site, kobold),
    ]


def _decorators(site: Site) -> list[Blow]:
    def card(line: str) -> Json:
        entry = {"keys": ["a"], "content": line * site.size(1_200_000), "extensions": {}}
        entry |= {"enabled": True, "insertion_order": 0, "use_regex": False}
        book = {"entries": [entry], "extensions": {}}
        return {"spec": "chara_card_v3", "spec_version": "3.0", "data": {"character_book": book}}

    return [_file(site, card(line)) for line in ("@@x 1\n", "@@depth 1\n", "@@@role user\n")]


def _chunks(site: Site) -> list[Blow]:
    count = site.size(870_000)
    empty, named = chunk(b"tEXt", b""), text({}, "k")
    return [
        _file(site, png(empty * count), "card.png"),
        _file(site, png(named * (count // 3)), "card.png"),
        _file(site, png(itxt(b"", "ccv3") * (count // 4)), "card.png"),
    ]


def _bombs(site: Site) -> list[Blow]:
    """Small files that become large ones when they are unpacked."""
    size = site.size(400) * _MIB
    packer = zlib.compressobj(9)
    zeros = b"".join([*(packer.compress(b"A" * _MIB) for _ in range(size // _MIB)), packer.flush()])
    body = b"chara\0\0" + zeros
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(20):
            file.writestr(f"{number or 'card.json'}", b" " * (size // 20))
    directory = io.BytesIO()
    with zipfile.ZipFile(directory, "w") as file:
        for number in range(site.size(60_000)):
            file.writestr(f"a{number}", b"")
    yaml = "a: &a0 [x]\n" + "".join(
        f"b{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    return [
        _file(site, SIGNATURE + png(chunk(b"zTXt", body))[len(SIGNATURE) :], "card.png"),
        _file(site, png(ztxt(base64.b64encode(b" " * 10 * _MIB))), "card.png"),
        _file(site, archive.getvalue(), "card.charx"),
        _file(site, directory.getvalue(), "card.charx"),
        _file(site, yaml.encode(), "w.yaml"),
    ]


def _entries(site: Site) -> list[Blow]:
    count = site.size(47 * _MIB // 3)
    empty = b'{"entries":[' + b",".join([b"{}"] * count) + b"]}"
    named = b'{"name":"a","entries":[' + b",".join([b'{"content":1}'] * (count // 5)) + b"]}"
    return [
        (ask, site.post(_BOOKS, empty)),
        (ask, site.post(_BOOKS, named)),
        (ask, site.post("/v1/imports", b'{"books":[' + empty + b"]}")),
        (ask, site.post("/v1/context/preview", b'{"query":"a","books":[{"book":' + empty + b"}]}")),
        (ask, site.post("/v1/sillytavern/activate", b'{"chat":' + empty[11:-1] + b"}")),
        (ask, site.post("/v1/replica/activate", b'{"chatHistory":' + empty[11:-1] + b"}")),
    ]


def _faults(site: Site) -> list[Blow]:
    """Bodies with a fault in every few bytes, each of which the answer may name."""
    count = site.size(60_000)
    unknown = {"name": "a", **{f"x{n}": 0 for n in range(count)}}
    keys = {"name": "a", "entries": [{"content": "x", "keys": [0] * (count // 20)}] * 20}
    texts = {"texts": [0] * count}
    blows = [(ask, site.post(_BOOKS, document)) for document in (unknown, keys)]
    return [*blows, (ask, site.post("/v1/tokens/count", texts))]


def _small_faults(site: Site) -> list[Blow]:
    """Bodies so small that they are read on the loop itself, with as many faults as go in."""
    count = 32_000 // 3
    return [
        (ask, site.post(_BOOKS, b'{"entries":[' + b",".join([b"{}"] * count) + b"]}")),
        (ask, site.post("/v1/tokens/count", b'{"texts":[' + b",".join([b"0"] * 16_000) + b"]}")),
        (ask, site.post("/v1/context/select", _written({f"{n:x}": 0 for n in range(4_000)}))),
    ]


def _brackets_json(site: Site) -> list[Blow]:
    size = site.size(47 * _MIB)
    lists = b"[" + b"[]," * (size // 3) + b"[]]"
    numbers = b"[" + b"0," * (size // 2) + b"0]"
    strings = b"[" + b'"",' * (size // 3) + b'""]'
    members = b'{"a":' * (size // 5) + b"0" + b"}" * (size // 5)
    return [(ask, site.post(_BOOKS, data)) for data in (lists, numbers, strings, members)]


def _nesting(site: Site) -> list[Blow]:
    size = site.size(15 * _MIB)
    return [
        _file(site, b"[" * size),
        _file(site, b'{"entries":' * (size // 11)),
        (ask, site.post(_BOOKS, b"[" * size)),
        (ask, site.post("/gateway/v1/chat/completions", b'{"messages":' + b"[" * size)),
    ]


def _numbers(site: Site) -> list[Blow]:
    digits = b"1" * site.size(4_000_000)
    exponents = b"[" + b"1e999," * site.size(2_000_000) + b"0]"
    return [
        (ask, site.post(_BOOKS, b'{"metadata":{"a":' + digits + b'},"name":"a"}')),
        (ask, site.post(_BOOKS, b'{"metadata":{"a":' + exponents + b'},"name":"a"}')),
        _file(site, b'{"entries":{"0":{"uid":' + digits + b"}}}"),
    ]


def _loose_json(site: Site) -> list[Blow]:
    """Files that are no JSON, but nearly: their repair looks at them again and again."""
    size = site.size(15 * _MIB)
    return [
        _file(site, data)
        for data in (
            b"," * size,
            b'{"entries": {' + b'"a":1,,' * (size // 7),
            b'{"entries": [' + b" ,]" * (size // 3),
            b"'" * size,
            b"\xff\xfe" + b"[\0" * (size // 2),
            b"NaN," * (size // 4),
            b"a: " * (size // 3),
            b"- " * (size // 2),
        )
    ]


def _many_losses(site: Site) -> list[Blow]:
    entries = [
        {"uid": n, "key": [1, 2], "content": 3, "x": [1], "order": "a", "probability": "b"}
        for n in range(site.size(5_000))
    ]
    return [_file(site, {"entries": entries}), _file(site, _world(*entries))]


def _imports(site: Site) -> list[Blow]:
    """Large sound files, stored by all callers at once."""
    entries = [
        {"key": [f"key {n} {m}" for m in range(10)], "content": f"{n} lamp " * 150}
        for n in range(site.size(4_500))
    ]
    blows: list[Blow] = []
    for number in range(16):
        data = _written({"name": f"{number}", **_world(*entries)})
        blows.append((ask, site.form(_FILES, f"{number}.json", data, field="files")))
    return blows


def _forms(site: Site) -> list[Blow]:
    """Forms whose parser is called for every byte or two."""
    size = site.size(15 * _MIB)
    kind = "Content-Type: multipart/form-data; boundary=edge"
    head = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n'
    bodies = (
        head + b"\r\n" + b"\r\n-" * (size // 3),
        head + b"\r\n" + b"\r\n--edg" * (size // 7),
        head + b"a:b\r\n" * (size // 5),
        b"\r\n" * (size // 2),
        b"--edge\r\n\r\n" * (size // 10),
    )
    path = site.path(_PREVIEW)
    return [(ask, site.request("POST", path, body, kind)) for body in bodies]


FILES = (
    Attack(name="brackets in keys", make=_brackets, short=0.1),
    Attack(name="commas in keys", make=_commas, short=0.02),
    Attack(name="decorators", make=_decorators, short=0.02),
    Attack(name="chunks of a picture", make=_chunks, short=0.02),
    Attack(name="packed files", make=_bombs, short=0.005),
    Attack(name="empty entries", make=_entries, short=0.01),
    Attack(name="faults", make=_faults, short=0.1),
    Attack(name="faults in small bodies", make=_small_faults),
    Attack(name="brackets and commas of JSON", make=_brackets_json, short=0.02),
    Attack(name="nesting", make=_nesting, short=0.05),
    Attack(name="long numbers", make=_numbers, short=0.02),
    Attack(name="nearly JSON", make=_loose_json, short=0.02),
    Attack(name="files with many losses", make=_many_losses, short=0.05),
    Attack(name="parallel imports", make=_imports, short=0.03),
    Attack(name="forms", make=_forms, short=0.02),
)
