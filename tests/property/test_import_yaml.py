"""A card dumped as YAML gives the same book as its JSON, whichever way it is dumped."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, strategies as st

from lorewell import import_file
from lorewell.errors import LorewellError
from lorewell.formats import yaml_text
from property.foreign import raw_entries
from property.strategies import ANY_TEXT, HOSTILE, SENTENCES
from property.test_import import CARDS, DOCUMENTS, taken

PARSERS = pytest.mark.parametrize("loader", ["CBaseLoader", "BaseLoader"])
TEXTS = SENTENCES | ANY_TEXT | HOSTILE | st.sampled_from(["007", "1e5", "yes", "灯\n 塔\n\n", ""])
GOOD_CARDS = st.builds(
    lambda spec, name, entries: {
        "spec": spec,
        "data": {"name": name, "character_book": {"name": name, "entries": entries}},
    },
    st.sampled_from(["chara_card_v2", "chara_card_v3"]),
    TEXTS,
    st.lists(st.builds(lambda raw, text: {**raw, "content": text}, raw_entries(), TEXTS)),
)


class Dumper(yaml.SafeDumper):
    """Writes what JSON holds; texts in the styles of `styles`, in turn."""

    styles: tuple[str | None, ...] = (None,)
    written = 0

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  the same object is written twice
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = self.styles[self.written % len(self.styles)]
        self.written += 1
        if "\x85" in data:  # in a block a line ends there, as it did in YAML 1.1
            style = '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


Dumper.add_representer(str, Dumper.represent_str)
# 1e5 is a number to JSON and to YAML 1.2, and was a text to YAML 1.1.
Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def dumped(document: object, styles: tuple[str | None, ...], **layout: Any) -> bytes:
    dumper = type("Styled", (Dumper,), {"styles": styles})
    return yaml.dump(document, Dumper=dumper, sort_keys=False, encoding="utf-8", **layout)


@PARSERS
@given(
    GOOD_CARDS | CARDS | DOCUMENTS,
    st.lists(st.sampled_from([None, '"', "'", "|", ">"]), min_size=1, max_size=4).map(tuple),
    st.fixed_dictionaries(
        {
            "allow_unicode": st.booleans(),
            "default_flow_style": st.sampled_from([None, True, False]),
            "width": st.sampled_from([20, 80, 10_000]),
        }
    ),
)
def test_card_as_yaml_gives_the_book_of_its_json(
    loader: str, document: Any, styles: tuple[str | None, ...], layout: dict[str, Any]
) -> None:
    text = json.dumps(document, ensure_ascii=False)
    assume(not re.search("[\ud800-\udfff]", text))  # YAML can't say halves
    as_json = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_text, "_LOADER", getattr(yaml, loader))
        assert outcome(dumped(document, styles, **layout)) == outcome(as_json)


def outcome(data: bytes) -> object:
    """Return the book and its warnings, or the code of the error."""
    try:
        found = import_file(data, name="oda.yaml")
    except LorewellError as error:
        return error.code, error.details
    return found.book, found.report.warnings


@PARSERS
@given(st.text(st.sampled_from("ab灯:-?|>&*!%@#'\"{}[],.~ \n\t0\\x"), max_size=40))
def test_any_text_that_looks_like_yaml(loader: str, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_text, "_LOADER", getattr(yaml, loader))
        taken(text.encode(), "oda.yaml")


@PARSERS
@given(st.binary(max_size=100))
def test_any_bytes(loader: str, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_text, "_LOADER", getattr(yaml, loader))
        taken(data, "oda.yaml")
