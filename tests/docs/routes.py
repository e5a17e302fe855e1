"""The table of docs/routes.md: routes and scopes are those of the application.

`.venv/bin/python tests/docs/routes.py` writes it again after a change of a route. A sentence that
is there stays; a new route gets the first line of its docstring.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from fastapi.params import Depends
from fastapi.routing import iter_route_contexts

from lorewell.bootstrap import build_services
from lorewell.http.app import create_app
from lorewell.settings import load_settings

PATH = Path(__file__).resolve().parents[2] / "docs" / "routes.md"
BEGIN, END = "<!-- begin -->\n", "<!-- end -->\n"
# With these all routes are there.
EVERYTHING: Mapping[str, object] = {
    "live": True,
    "demo_tenant": "demo",
    "replica_tenant": "demo",
    "gateway_upstream_url": "http://127.0.0.1:9/v1",
}
# The scope that a dependency of a route checks, by the name of the function without `_`.
_CHECKED: Mapping[str, str] = {
    "reading": "read",
    "visiting": "read",
    "writing": "write",
    "administering": "admin",
    "managing": "tenant_admin",
    "measuring": "metrics",
}
# A scope that is checked further below, where the policy is known.
_FURTHER: Mapping[str, str] = {"create_chat_completion": "write"}
_NEEDED = re.compile(r'\b(?:need|open|enter)\([^"()]*"(\w+)"')
_HEAD = "\n| Route | Scope | What it does |\n| --- | --- | --- |\n"
_LINE = re.compile(r"^\| `(\w+) (\S+)` \| [^|]* \| (.*) \|$", re.MULTILINE)
_KIND = re.compile(r":\w+\}")
_WORD = re.compile(r"\b_\w+")


class Row(NamedTuple):
    """A route as docs/routes.md has it."""

    path: str
    method: str
    scopes: tuple[str, ...]
    line: str

    def __str__(self) -> str:
        scopes = ", ".join(f"`{scope}`" for scope in self.scopes) or "open"
        return f"| `{self.method} {self.path}` | {scopes} | {self.line} |\n"


def all_rows() -> list[Row]:
    """Return every route of the service, by path."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(**EVERYTHING, database_url=f"sqlite:///{folder}/lorewell.db")
        app = create_app(build_services(settings), settings)
    return sorted({row for route in iter_route_contexts(app.routes) for row in _rows(route)})


def written() -> str:
    """Return docs/routes.md as it has to be."""
    text = PATH.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    lines = {(row[1], row[2]): row[3] for row in _LINE.finditer(rest)}
    found = (row._replace(line=lines.get((row.method, row.path), row.line)) for row in all_rows())
    return f"{before}{BEGIN}{_HEAD}{''.join(map(str, found))}{END}{rest.partition(END)[2]}"


def _rows(route: Any) -> Iterator[Row]:
    path = _KIND.sub("}", route.path).rstrip("/")  # some answer with a slash at the end too
    line = (route.endpoint.__doc__ or "").partition("\n")[0]
    for method in sorted(getattr(route, "methods", None) or ["WebSocket"]):
        yield Row(path, method, tuple(dict.fromkeys(_scopes(route.endpoint))), line)


def _scopes(endpoint: Callable[..., Any]) -> Iterator[str]:
    hints = get_type_hints(endpoint, include_extras=True)
    for hint in hints.values():
        for extra in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
            if isinstance(extra, Depends):
                yield _CHECKED[getattr(extra.dependency, "__name__", "").removeprefix("_")]
    source = inspect.getsource(endpoint)
    beside = vars(inspect.getmodule(endpoint))
    for name in dict.fromkeys(_WORD.findall(source)):
        if inspect.isfunction(beside.get(name)):
            source += inspect.getsource(beside[name])
    yield from _NEEDED.findall(source)
    if endpoint.__name__ in _FURTHER:
        yield _FURTHER[endpoint.__name__]


if __name__ == "__main__":
    PATH.write_text(written(), encoding="utf-8")
