"""Signs of content that wants an environment we don't offer (docs/rules/native.md §11.5)."""

from __future__ import annotations

import time

import pytest

from lorewell.engine.sillytavern.entry.dynamic import (
    REQUIREMENTS,
    find_signs,
    in_table_order,
    kind_of,
    texts_of,
)
from lorewell.engine.steps import Steps
from support import Document


def find_dynamic(content: str, title: str, raw: Document) -> tuple[str, ...]:
    """Return the requirements of an entry, in the table's order."""
    signs = find_signs(content, title, list(texts_of(raw, Steps())))
    return in_table_order(sign.requirement for sign in signs)


SIGNS = [
    ("ejs", "<% if (灯) { %>"),
    ("ejs", "止まれ %>"),
    ("ejs", "@@GENERATE"),
    ("ejs", "await GetWI('ランプ')"),
    ("ejs", "[generate:before]"),
    ("mvu", "<updatevariable>"),
    ("mvu", "_.SET('好感度', 3)"),
    ("mvu", "[MVU_update] 状态"),
    ("mvu", "[initvar]"),
    ("mvu", "<StatusPlaceHolderImpl/>"),
    ("charinfo", "<CharInfo>"),
    ("script", "<SCRIPT>alert()</SCRIPT>"),
    ("script", "<iframe src=x>"),
    ("script", "[โคม](JavaScript:go())"),
    ("script", "<img src=x onerror=alert(1)>"),
    ("script", "<img/onload = go()>"),
    ("script", "<b title='a > b' onclick=go()>лампа</b>"),
    ("script", "<a title=it's onclick=go()>"),
    ("script", '<a title="<" onclick=go()>'),
    ("script", "<a\nONCLICK\n=\ngo()>"),
    ("script", "```html\n<HTML lang=zh>"),
    ("script", "~~~\n<!DOCTYPE html>"),
    ("script", "```\n```\n```\n<html>"),
    ("macro", "{{random::灯::塔}}"),
    ("macro", "{{}}"),
    ("macro", "{{roll:{{user}}}}"),
    ("macro", "{{a {{b {{user}} }} }}"),
    ("macro", "{{us{{char}}er}}"),
    ("decorators", "@@depth 3\nランプ"),
    ("decorators", "\n @@activate\n🏮"),
]
HARMLESS = [
    "",
    "An oil lamp. 油灯 ランプ โคมไฟ лампа 🏮",
    "{{char}} greets {{ USER }}",
    "{char} {{char} {user}}",
    "<b>on = off</b> onset=1",
    "1 < 2 on that=so",
    "<html> without a fence",
    "<html> before\n```\ncode\n```",
    "text\n@@depth 3",
    "<on=1>",
    "the on… switch: <i>only=</i>",
]


@pytest.mark.parametrize(("requirement", "text"), SIGNS)
def test_a_sign_is_found_in_content_title_and_unknown_fields(requirement: str, text: str) -> None:
    assert requirement in find_dynamic(text, "", {})
    if requirement != "decorators":
        assert requirement in find_dynamic("", text, {})
        assert requirement in find_dynamic("", "", {"未知": [1, {"deep": (None, text)}]})


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_needs_nothing(text: str) -> None:
    assert find_dynamic(text, text if "@@" not in text else "", {"x": text}) == ()


def test_mvu_macros_are_both() -> None:
    assert find_dynamic("{{get_message_variable::a}}", "", {}) == ("mvu", "macro")


def test_charinfo_counts_at_the_front_of_a_title_alone() -> None:
    assert find_dynamic("", " charINFO 规则", {}) == ("charinfo",)
    assert find_dynamic("CharInfo", "About CharInfo", {"comment": "CharInfo"}) == ()


def test_leading_decorators_count_in_content_alone() -> None:
    assert find_dynamic("灯", "@@depth 1", {"comment": "@@depth 1"}) == ()


def test_member_names_are_no_texts() -> None:
    assert find_dynamic("", "", {"<% x %>": 1, "a": {"{{roll}}": True}}) == ()


def test_all_signs_are_listed_in_the_order_of_the_table() -> None:
    everything = "".join(text for _, text in SIGNS)
    found = find_dynamic("@@depth 1\n" + everything, "CharInfo", {})
    assert found == ("ejs", "mvu", "charinfo", "script", "macro", "decorators")
    assert [REQUIREMENTS.index(name) for name in found] == sorted(map(REQUIREMENTS.index, found))


@pytest.mark.parametrize(
    ("requirements", "kind"),
    [
        (("ejs", "mvu", "script"), "presentation"),
        (("ejs", "mvu"), "state_update"),
        (("charinfo",), "template"),
        (("ejs", "macro"), "template"),
        (("sticky", "macro", "decorators"), "lore"),
        ((), "lore"),
    ],
)
def test_kinds_have_a_precedence(requirements: tuple[str, ...], kind: str) -> None:
    assert kind_of(requirements) == kind


HOSTILE = [
    *("<", "{", "}", "`", "~", "{{", "{{a", "<a", "<a ", "<a'", '<a"', "<a '\"", " on", "/onx ="),
    *(
        "<a on",
        "<a onx",
        "on",
        "on =",
        "'\"",
        "<% ",
        "```<",
        "{{user}}",
        "{{{{",
        "@@",
        "\\",
        "\n@@",
    ),
    *("<a=\"'", "'<a\"", "<a b='", "=\"<a '"),
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("head", ["", "<a onx '"])
def test_hostile_text_takes_linear_time(head: str, piece: str) -> None:
    def measure(size: int) -> float:
        text = head + piece * (size // len(piece))
        start = time.perf_counter()
        find_dynamic(text, "", {})
        return time.perf_counter() - start

    # Quadratic time would be minutes: 200,000 characters of it are 4e10 steps.
    assert measure(200_000) < 2
