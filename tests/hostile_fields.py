"""Hostile input for every field of every route, as the OpenAPI document names them.

Each field of a valid request is replaced by texts, lists, objects and numbers of many shapes, each
in one size and in four times that size. `examine` says what is wrong with a pair of answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import httpx

from service import Api

Json = Any
Step = str | int
MAX_PROBLEM_BYTES = 65_536
SLACK_S = 0.5
_ATTEMPTS = 3
_REFUSED, _FAILED = 400, 500
_BODIES = ("application/json", "multipart/form-data")
# Where there is no model server, the gateway and the socket of a chat say so.
_MAY_FAIL = {"upstream_unavailable", "upstream_timeout", "overloaded", "embedding_unavailable"}


class Answer(Protocol):
    """As httpx has it."""

    @property
    def status_code(self) -> int: ...

    @property
    def content(self) -> bytes: ...


class Ask(Protocol):
    """Sends a request and returns the answer."""

    def __call__(
        self, method: str, path: str, *, params: Any, content: bytes | None, headers: Any
    ) -> Answer: ...


class Case(NamedTuple):
    """A request with one field that is hostile."""

    method: str
    path: str
    params: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes | None


TEXTS: Mapping[str, Callable[[int], str]] = {
    "one letter": lambda n: "a" * n,
    "spaces": lambda n: " " * n,
    "line breaks": lambda n: "\n" * n,
    "square brackets": lambda n: "[" * n,
    "round brackets": lambda n: "(" * n,
    "braces": lambda n: "{" * n,
    "closing brackets": lambda n: ")]}" * (n // 3),
    "commas": lambda n: "," * n,
    "separators": lambda n: "a.|&;:=/" * (n // 8),
    "dots": lambda n: "a." * (n // 2),
    "quotes": lambda n: "\"'" * (n // 2),
    "backslashes": lambda n: "\\" * n,
    "slashes": lambda n: "/" * n,
    "digits": lambda n: "9" * n,
    "minus signs": lambda n: "-" * n,
    "decorators": lambda n: "@@depth 1\n" * (n // 10),
    "unknown decorators": lambda n: "@@@" * (n // 3),
    "macros": lambda n: "{{user}}" * (n // 8),
    "open macros": lambda n: "{{random:" * (n // 9),
    "conditions": lambda n: "a == 1 && " * (n // 10),
    "negations": lambda n: "!" * n,
    "regex of brackets": lambda n: "/" + "[" * n + "/",
    "regex that repeats": lambda n: "/" + "(a+)+" * (n // 5) + "$/i",
    "regex of branches": lambda n: "/" + "a|" * (n // 2) + "/",
    "regex of groups": lambda n: "/" + "(" * (n // 2) + ")" * (n // 2) + "/",
    "regex of counts": lambda n: "/" + "a{1,9}" * (n // 6) + "/",
    "bidi controls": lambda n: "\u202e" * n,
    "zero width": lambda n: "\u200b" * n,
    "combining marks": lambda n: "e" + "\u0301" * n,
    "emoji": lambda n: "\U0001f600" * n,
    "family emoji": lambda n: "\U0001f468\u200d\U0001f469\u200d" * (n // 4),
    "ideographs": lambda n: "\u96fe" * n,
    "capital sharp s": lambda n: "\u1e9e" * n,
    "U+0000": lambda n: "a\x00" * (n // 2),
    "controls": lambda n: "\x1b[2J" * (n // 4),
    "surrogates": lambda n: "\ud800" * n,
    "ever other": lambda n: "".join(chr(97 + i * i % 26) for i in range(n)),
}
VALUES: Mapping[str, Callable[[int], Json]] = {
    "list of texts": lambda n: ["a"] * n,
    "list of other texts": lambda n: [f"k{i}" for i in range(n)],
    "list of numbers": lambda n: [1] * n,
    "list of lists": lambda n: [[]] * n,
    "list of objects": lambda n: [{}] * n,
    "list of nulls": lambda n: [None] * n,
    "deep list": lambda n: _deep(n, lambda inner: [inner]),
    "deep object": lambda n: _deep(n, lambda inner: {"and": inner}),
    "object": lambda n: {f"k{i}": 1 for i in range(n)},
    "object of objects": lambda n: {f"k{i}": {} for i in range(n)},
    "long name": lambda n: {"k" * n: 1},
    "list of long texts": lambda n: ["a" * 100] * n,
}
# As they stand in the text: some are no JSON.
RAW: Mapping[str, Callable[[int], str]] = {
    "long integer": lambda n: "9" * n,
    "long negative integer": lambda n: "-" + "9" * n,
    "long fraction": lambda n: "0." + "1" * n,
    "long exponent": lambda n: "1e" + "9" * n,
    "1e999": lambda _: "1e999",
    "1e308": lambda _: "1e308",
    "NaN": lambda _: "NaN",
    "Infinity": lambda _: "-Infinity",
    "very small": lambda _: "1e-999",
    "minus zero": lambda _: "-0",
    "64 bits and one": lambda _: str(2**64),
    "true": lambda _: "true",
    "open brackets": lambda n: "[" * n,
    "open text": lambda n: '"' + "a" * n,
    "bad escape": lambda _: r'"\u12"',
    "twice the same name": lambda n: "{" + ",".join(['"a":1'] * n) + "}",
}
EXAMPLE_BOOK = "11111111-1111-4111-8111-111111111111"
_MARK = "\x7fhere\x7f"


def _deep(n: int, wrap: Callable[[Json], Json]) -> Json:
    value: Json = 1
    for _ in range(min(n, 97)):
        value = wrap(value)
    return value


def filled(schema: Json, shown: Json, document: Json) -> Json:
    """Return a value that a schema accepts, with all that it names: what is shown, and the rest."""
    if "$ref" in schema:
        named = schema["$ref"].rpartition("/")[2]
        return filled(document["components"]["schemas"][named], shown, document)
    choices = schema.get("anyOf", [])
    if shown is None and "default" in schema and not _holds_model(schema):
        return schema["default"]
    if choices and (shown is None or len(_models(schema)) == 1):
        return filled((_models(schema) or choices)[0], shown, document)
    if "properties" in schema and (shown is None or isinstance(shown, dict)):
        given = shown or {}
        properties = schema["properties"].items()
        made = {name: filled(each, given.get(name), document) for name, each in properties}
        return {**given, **made}
    if "items" in schema and (shown is None or isinstance(shown, list)):
        return [filled(schema["items"], each, document) for each in shown or [None]]
    if shown is not None:
        return shown
    return schema["enum"][0] if "enum" in schema else _scalar(schema)


def _models(schema: Json) -> list[Json]:
    return [each for each in schema.get("anyOf", ()) if "$ref" in each]


def _holds_model(schema: Json) -> bool:
    return "$ref" in schema or bool(_models(schema)) or "$ref" in schema.get("items", {})


def _scalar(schema: Json) -> Json:
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "string":
            return "a"
        case "array":
            return []
    return {}


def places(value: Json, at: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield the way to the value and to each one in it."""
    yield at
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for step, below in items:
        yield from places(below, (*at, step))


def replaced(value: Json, at: Sequence[Step], new: Json) -> Json:
    """Return a copy with another value at a place."""
    if not at:
        return new
    head, *rest = at
    if isinstance(value, dict):
        return {**value, head: replaced(value[head], rest, new)}
    return [replaced(old, rest, new) if i == head else old for i, old in enumerate(value)]


def written(body: Json, at: Sequence[Step], raw: str) -> bytes:
    """Return the JSON with a text, be it JSON or not, at a place."""
    text = json.dumps(replaced(body, at, _MARK))
    return text.replace(json.dumps(_MARK), raw).encode()


# What the examples of the document leave out; the two bodies of a route are both sent.
_WORLD_ENTRY = {
    "uid": 0,
    "key": ["lamp"],
    "keysecondary": ["mole"],
    "comment": "Lamp",
    "content": "A lamp.",
    "constant": False,
    "vectorized": False,
    "selective": True,
    "selectiveLogic": 0,
    "order": 100,
    "position": 0,
    "disable": False,
    "probability": 100,
    "useProbability": True,
    "depth": 4,
    "outletName": "o",
    "group": "g",
    "groupWeight": 100,
    "scanDepth": 4,
    "caseSensitive": None,
    "matchWholeWords": None,
    "useGroupScoring": None,
    "automationId": "",
    "role": 0,
    "sticky": 1,
    "cooldown": 1,
    "delay": 0,
    "delayUntilRecursion": 0,
    "triggers": ["normal"],
    "characterFilter": {"isExclude": False, "names": ["n"], "tags": ["t"]},
    "excludeRecursion": False,
    "preventRecursion": False,
}
_WORLDS = {"books": [{"source": "chat", "name": "Harbour", "entries": {"0": _WORLD_ENTRY}}]}
_MACROS = {
    "macros": {
        "user": "Ann",
        "char": "Mira",
        "description": "{{char}} waits.",
        "alternate_greetings": ["Hello."],
        "group_members": [{"name": "Mira", "muted": False}],
        "messages": [{"content": "lamp", "role": "user", "swipes": 1, "swipe": 0, "sent": "0"}],
        "chat_id": "chat",
        "time": "2026-03-09T14:07:09Z",
        "timezone": "+01:00",
        "host": {"model": "m", "instruct": {"enabled": True, "stop_sequence": "."}},
        "extra": {"summary": "They met."},
    },
    "variables": {"local": {"a": "1"}, "global": {"b": 2}},
}
_FORCED = {"forced": [{"ref": "Harbour.0"}], "vectors": None}
_TRIGGERS = {"keyword": [True, {"key": ["lamp"]}], "condition": [True, {"conditions": ["a == 1"]}]}
_REPLICA_ENTRY = {"uid": "u", "content": "A lamp.", "trigger_config": {"triggers": _TRIGGERS}}
_REPLICA = {"books": {"b": {"name": "b", "entries": {"u": _REPLICA_ENTRY}}}}
_SCENE: Json = {
    "state": {"a": 1},
    "tables": {"b": 1},
    "names": {"char": "c", "user": "u", "group": "g"},
    "character": {"name": "n", "file": "f", "tags": ["t"], "description": "d", "scenario": "s"},
    "persona": "p",
    "note": {"text": "t", "position": "in_chat", "depth": 1, "role": "user"},
    "trigger": "swipe",
    "chat_length": 3,
    "time": "2026-01-31T20:15:00Z",
    "tokenizer": "cl100k_base",
    "enabled": True,
}
_SHOWN: Mapping[str, Sequence[Json]] = {
    "/v1/sillytavern/activate": [{**_WORLDS, **_FORCED, **_MACROS}],
    "/v1/sillytavern/preview": [{**_WORLDS, **_FORCED}],
    "/v1/sillytavern/replay": [_WORLDS],
    "/v1/replica/activate": [_REPLICA],
    "/v1/replica/preview": [{**_REPLICA, "changed": []}],
    "/v1/host/assemble": [{"sillytavern": ...}, {"blocks": ...}],
    "/v1/tokens/count": [{"texts": ["a"]}],
    "/api/worldbooks": [{"name": "n", "description": "d", "entries": [_REPLICA_ENTRY]}],
    "/api/worldbooks/{name}": [{"description": "d"}],
    "/api/worldbooks/{name}/entries": [_REPLICA_ENTRY],
    "/api/worldbooks/{name}/entries/{uid}": [_REPLICA_ENTRY],
    "/gateway/v1/chat/completions": [
        {
            "model": "p",
            "messages": [
                {"role": "system", "content": '[lorewell char="a" type=swipe last=1]'},
                {"role": "user", "content": [{"type": "text", "text": "lamp"}]},
            ],
            "lorewell": _SCENE,
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "user": "p",
            "max_tokens": 10,
        }
    ],
}
_NAMED = {"tenant_id": "demo", "prompt_id": "p", "format": "native", "from": "1", "to": "1"}


class Operation(NamedTuple):
    """A route and method, and a valid request for it."""

    method: str
    path: str
    params: dict[str, str]
    query: list[str]
    headers: list[str]
    steps: Mapping[str, str]
    bodies: list[Json]
    media_type: str | None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def kind(self) -> dict[str, str]:
        """The header that says what the body is."""
        return {"Content-Type": self.media_type} if self.media_type else {}

    def case(
        self,
        *,
        path: str | None = None,
        params: Sequence[tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Case:
        """Return the request with some parts of it replaced."""
        usual = json.dumps(self.bodies[0]).encode() if self.bodies else None
        return Case(
            method=self.method,
            path=self.url() if path is None else path,
            params=[*self.params.items()] if params is None else params,
            headers=self.kind if headers is None else headers,
            body=usual if body is None else body,
        )

    def url(self, step: str | None = None, value: str = "") -> str:
        """Return the path, with a value in the place of a step."""
        path = self.path
        for name, usual in self.steps.items():
            shown = value if name == step else usual
            path = path.replace(f"{{{name}}}", quote(shown, safe="", errors="surrogatepass"))
        return path


def operations(document: Json, known: Mapping[str, str]) -> list[Operation]:
    """Return all operations of a document; `known` are values for steps of their paths."""
    return [
        _operation(method.upper(), path, declared, document, known)
        for path, methods in document["paths"].items()
        for method, declared in methods.items()
    ]


def _operation(
    method: str, path: str, declared: Json, document: Json, known: Mapping[str, str]
) -> Operation:
    parameters = declared.get("parameters", [])
    content = declared.get("requestBody", {}).get("content", {})
    media_type = next(iter(content), None)
    bodies = []
    if media_type == _BODIES[0]:
        for more in _SHOWN.get(path, [{}]):
            example = {**content[media_type].get("example", {}), **more}
            left_out = [name for name, value in example.items() if value is ...]
            shown = {name: value for name, value in example.items() if value is not ...}
            body = filled(content[media_type]["schema"], shown, document)
            for name in left_out:
                del body[name]
            bodies.append(_with_known(body, known))
    needed = {each["name"] for each in parameters if each["in"] == "query" and each["required"]}
    return Operation(
        method=method,
        path=path,
        params={name: _NAMED[name] for name in sorted(needed)},
        query=[each["name"] for each in parameters if each["in"] == "query"],
        headers=[each["name"] for each in parameters if each["in"] == "header"],
        # What is known has to stay.
        steps={
            name: "1" if method == "DELETE" else known.get(name, "1")
            for name in re.findall(r"\{(\w+)\}", path)
        },
        bodies=bodies,
        media_type=media_type,
    )


def _with_known(body: Json, known: Mapping[str, str]) -> Json:
    return json.loads(json.dumps(body).replace(EXAMPLE_BOOK, known.get("book_id", EXAMPLE_BOOK)))


class Probe(NamedTuple):
    """A field of an operation and a shape; makes the case of a size."""

    field: str
    shape: str
    make: Callable[[int], Case]


def body_probes(operation: Operation) -> Iterator[Probe]:
    """Yield each value of the operation's bodies replaced, and objects with unknown members."""
    for body in operation.bodies:
        for at in places(body):
            place = f"{operation.name} /{'/'.join(map(str, at))}"
            for shape, raw in _shapes(body, at):
                yield Probe(place, shape, _BodyMaker(operation, body, at, raw))
    yield from _form_probes(operation)


def _shapes(body: Json, at: Sequence[Step]) -> Iterator[tuple[str, Callable[[int], str]]]:
    for shape, text in {**TEXTS, **VALUES}.items():
        yield shape, lambda size, text=text: json.dumps(text(size))
    yield from RAW.items()
    old = body
    for step in at:
        old = old[step]
    if isinstance(old, dict):
        yield "unknown members", lambda size: json.dumps({**old, **VALUES["object"](size)})
    if isinstance(old, list) and old:
        yield "many items", lambda size: json.dumps(old * size)


class _BodyMaker(NamedTuple):
    """Makes the case of a size, with the text of a value at a place of a body."""

    operation: Operation
    body: Json
    at: Sequence[Step]
    raw: Callable[[int], str]

    def __call__(self, size: int) -> Case:
        content = written(self.body, self.at, self.raw(size))
        return self.operation.case(headers={"Content-Type": _BODIES[0]}, body=content)


# Parts of a form: what stands for its boundary, the head of its part, and what the part holds.
_FORMS: Mapping[str, Callable[[int], tuple[str, str, str]]] = {
    "boundary": lambda n: ("b" * n, 'form-data; name="file"', "{}"),
    "name": lambda n: ("b", f'form-data; name="{"n" * n}"', "{}"),
    "file name": lambda n: ("b", f'form-data; name="file"; filename="{"../" * n}"', "{}"),
    "options": lambda n: ("b", "form-data" + "; a=b" * n, "{}"),
    "headers": lambda n: ("b", "form-data\r\nX-A: b" * n, "{}"),
    "quotes": lambda n: ("b", 'form-data; name="' + '\\"' * n, "{}"),
    "line breaks": lambda n: ("b", 'form-data; name="file"', "\r\n-" * n),
    "parts": lambda n: (
        "b",
        'form-data; name="file"',
        '{}\r\n--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' * n,
    ),
}


def _form_probes(operation: Operation) -> Iterator[Probe]:
    if operation.media_type != _BODIES[1]:
        return
    for shape, parts in _FORMS.items():

        def make(size: int, parts: Callable[[int], tuple[str, str, str]] = parts) -> Case:
            boundary, head, held = parts(size)
            body = (
                f"--{boundary}\r\nContent-Disposition: {head}\r\n\r\n{held}\r\n--{boundary}--\r\n"
            )
            kind = f"{_BODIES[1]}; boundary={boundary}"
            return operation.case(headers={"Content-Type": kind}, body=body.encode())

        yield Probe(f"{operation.name} form", shape, make)


# Headers that every route reads, or something before it.
_HEADERS = (
    *("Accept", "Authorization", "Content-Length", "Content-Type", "Content-Encoding", "Cookie"),
    *("Idempotency-Key", "If-None-Match", "Last-Event-ID", "Origin", "Range", "Referer"),
    *("Traceparent", "User-Agent", "X-Forwarded-For", "X-Request-ID"),
)
_MAX_LINE = 1_500  # longer heads are refused before anybody reads them


def line_probes(operation: Operation) -> Iterator[Probe]:
    """Yield the operation with each part of its path, query and headers replaced."""
    for shape, text in TEXTS.items():
        for step in operation.steps:
            yield Probe(f"{operation.name} {{{step}}}", shape, _in_path(operation, step, text))
        for name in operation.query:
            yield Probe(f"{operation.name} ?{name}", shape, _in_query(operation, name, text))
        for name in dict.fromkeys((*operation.headers, *_HEADERS)):
            yield Probe(f"{operation.name} {name}:", shape, _in_head(operation, name, text))
    yield Probe(f"{operation.name} ?", "many parameters", _with_many_parameters(operation))


def _line(text: Callable[[int], str], size: int) -> str:
    return text(min(size, _MAX_LINE))[:_MAX_LINE]


def _in_path(operation: Operation, step: str, text: Callable[[int], str]) -> Callable[[int], Case]:
    return lambda size: operation.case(path=operation.url(step, _line(text, size)))


def _in_query(operation: Operation, name: str, text: Callable[[int], str]) -> Callable[[int], Case]:
    def make(size: int) -> Case:
        value = _line(text, size).encode(errors="replace").decode()
        return operation.case(params=[*{**operation.params, name: value}.items()])

    return make


def _in_head(operation: Operation, name: str, text: Callable[[int], str]) -> Callable[[int], Case]:
    def make(size: int) -> Case:
        plain = re.sub(r"[^ -~]", "?", _line(text, size)).strip()
        return operation.case(headers={**operation.kind, name: plain})

    return make


def _with_many_parameters(operation: Operation) -> Callable[[int], Case]:
    def make(size: int) -> Case:
        many = [(f"p{number}", "1") for number in range(min(size, 4_000))]
        return operation.case(params=[*operation.params.items(), *many])

    return make


class Seen(NamedTuple):
    """What a case came to: its status and code, and the seconds that it took."""

    status: int
    code: str
    taken_s: float


def run(case: Case, ask: Ask, clock: Callable[[], float]) -> tuple[Seen, str | None]:
    """Send a case; return what came of it, and what is wrong with the answer, if anything is."""
    before = clock()
    answer = ask(
        case.method, case.path, params=case.params, content=case.body, headers=case.headers
    )
    taken_s = clock() - before
    status, content = answer.status_code, answer.content
    if status < _REFUSED:
        return Seen(status, "", taken_s), None
    problem = json.loads(content)
    code = str(problem.get("error", problem)["code"])
    seen = Seen(status, code, taken_s)
    if len(content) > MAX_PROBLEM_BYTES:
        return seen, f"a problem of {len(content):,} bytes"
    if status >= _FAILED and code not in _MAY_FAIL:
        return seen, f"{status} {code}"
    return seen, None


def compare(small: Seen, large: Seen) -> str | None:
    """Return what is wrong with the time of an input and of one that is four times as large."""
    if large.taken_s > 6 * small.taken_s + SLACK_S:
        return f"{large.taken_s:.2f} s after {small.taken_s:.2f} s for a quarter of it"
    return None


def examine(probe: Probe, size: int, ask: Ask, clock: Callable[[], float]) -> Iterator[str]:
    """Yield what is wrong with the answers to a probe in one size and in four times that."""
    slow: str | None = None
    for number in range(_ATTEMPTS):  # a busy machine is no fault; what is cached, is none again
        seen = []
        for each in (size + number, 4 * (size + number)):
            found, wrong = run(probe.make(each), ask, clock)
            seen.append(found)
            if wrong:
                yield f"{probe.field} {probe.shape} × {each}: {wrong}"
                return
        slow = compare(*seen)
        if slow is None:
            return
    yield f"{probe.field} {probe.shape} × {4 * size}: {slow}"


class Target(NamedTuple):
    """A service to send hostile input to.

    Attributes:
        ask: sends a request to it.
        document: its OpenAPI document.
        known: values for steps of paths, such as the id of a book that is there.
    """

    ask: Ask
    document: Json
    known: Mapping[str, str]


def in_process(api: Api) -> Target:
    """Return an application in this process, with a book to ask for."""

    def ask(
        method: str, path: str, *, params: Any, content: bytes | None, headers: Any
    ) -> httpx.Response:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        asked = api.client.request(method, path, params=params, content=content, headers=raw)
        answer: httpx.Response = api.run(asked)
        return answer

    return _prepared(ask, api.document)


def over_http(client: httpx.Client) -> Target:
    """Return the service that a client is for; its key, if there is one, opens the tenant demo."""

    def ask(
        method: str, path: str, *, params: Any, content: bytes | None, headers: Any
    ) -> httpx.Response:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        return client.request(method, path, params=params, content=content, headers=raw)

    return _prepared(ask, client.get("/openapi.json").json())


def _prepared(ask: Ask, document: Json) -> Target:
    params = [("tenant_id", "demo")]
    headers = {"Content-Type": _BODIES[0]}

    def create(path: str, book: Json) -> Json:
        content = json.dumps(book).encode()
        return json.loads(
            ask("POST", path, params=params, content=content, headers=headers).content
        )

    made = create("/v1/books", {"name": "b", "entries": [{"content": "A lamp."}]})
    known = {"book_id": made["books"][0]["book_id"], "n": "1", "name": "w", "uid": "u"}
    if "/api/worldbooks" in document["paths"]:
        create("/api/worldbooks", {"name": "w", "entries": [_REPLICA_ENTRY]})
    return Target(ask, document, known)


def campaign(
    target: Target,
    *,
    size: int,
    clock: Callable[[], float],
    keep: Callable[[str], bool] = lambda _: True,
) -> Iterator[str]:
    """Yield what is wrong with the answers of a service to hostile input in every field.

    Args:
        target: the service.
        size: signs or items of the smaller input; the larger one has four times as many.
        clock: seconds that count, such as those of a CPU if the service is in this process.
        keep: says by its field and shape whether a probe is sent.
    """
    for operation in operations(target.document, target.known):
        for probe in (*line_probes(operation), *body_probes(operation)):
            if keep(f"{probe.field} {probe.shape}"):
                yield from examine(probe, size, target.ask, clock)
