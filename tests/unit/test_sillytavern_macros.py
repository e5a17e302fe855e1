"""Macros of the policy `sillytavern` beyond the golden cases: limits, warnings, dates, values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lorewell import SillyTavernRequest, SillyTavernResponse, activate
from lorewell.engine.sillytavern.macros.chance import first_draw
from lorewell.engine.sillytavern.macros.dates import read_date, read_sent
from lorewell.engine.sillytavern.macros.moments import LocalTime
from lorewell.engine.sillytavern.macros.new_engine import MAX_DEPTH
from lorewell.errors import TooExpensiveError, ValidationFailedError
from lorewell.model.macro_values import MAX_VARIABLE_CHARS, MAX_VARIABLES, Moment
from lorewell.model.parse import parse_model
from lorewell.model.warning import TurnWarning
from macro_texts import expand, macros_for

NAMES = {"user": "Tom", "char": "Mira"}
TIME = {**NAMES, "time": "2026-03-09T14:07:09Z", "timezone": "Asia/Tokyo"}


def turn(*entries: dict[str, Any], chat: str = "the gate", **members: Any) -> SillyTavernResponse:
    listed = {str(uid): {"uid": uid, "position": 0, **each} for uid, each in enumerate(entries)}
    document = {
        "books": [{"name": "book", "entries": listed}],
        "chat": [{"content": chat}],
        "macros": NAMES,
        "context_tokens": 4096,
        **members,
    }
    return activate([], parse_model(SillyTavernRequest, document))


# Warnings


def warnings_of(text: str, engine: str = "new", **members: Any) -> tuple[str, list[TurnWarning]]:
    macros = macros_for(engine, **members)
    return macros.expand(text, "book.0", "/content"), macros.warnings


@pytest.mark.parametrize("engine", ["new", "old"])
def test_name_that_nobody_gave_is_empty_and_a_warning(engine: str) -> None:
    text, warnings = warnings_of("雾 {{char}}!", engine, macros={"user": "阿岚"})
    assert text == "雾 !"
    (warning,) = warnings
    assert warning == TurnWarning(
        "value_missing",
        "{{char}} has no value: give the name of the character.",
        entry="book.0",
        at="/content",
        macro="char",
        span=(2, 10),
        missing="char",
    )


@pytest.mark.parametrize("engine", ["new", "old"])
def test_name_that_stands_in_is_used_and_a_warning(engine: str) -> None:
    macros = {"user": "User", "char": "米拉", "stand_ins": ["user"]}
    text, warnings = warnings_of("雾 {{user}} {{char}}", engine, macros=macros)
    assert text == "雾 User 米拉"
    assert [(each.code, each.missing) for each in warnings] == [("value_missing", "user")]


def test_span_is_that_of_the_text_as_written() -> None:
    text, warnings = warnings_of("<USER> {{time_UTC+2}} <BOT>😀{{input}}")
    assert text == "Tom {{time::UTC+2}} Mira😀"
    assert [(each.code, each.span, each.missing) for each in warnings] == [
        ("time_missing", (7, 21), "time"),
        ("value_missing", (28, 37), "host.input"),
    ]


def test_missing_time_leaves_the_macro_in_both_engines() -> None:
    assert expand("{{date}} {{time::UTC+2}}") == "{{date}} {{time::UTC+2}}"
    assert expand("{{date}} {{time_UTC+2}}", "old") == "{{date}} {{time_UTC+2}}"


def test_given_empty_value_is_no_warning() -> None:
    macros = {**NAMES, "description": "", "persona": ""}
    assert warnings_of("{{description}}{{persona}}", macros=macros) == ("", [])
    text, warnings = warnings_of("{{description}}{{persona}}")
    assert (text, [each.missing for each in warnings]) == ("", ["description", "persona"])


@pytest.mark.parametrize("engine", ["new", "old"])
def test_field_of_the_card_reports_what_its_macros_miss(engine: str) -> None:
    macros = {**NAMES, "description": "has {{input}}", "persona": "{{model}}"}
    text, warnings = warnings_of("She {{description}}.", engine, macros=macros)
    assert text == "She has ."
    assert [(each.macro, each.span, each.missing) for each in warnings] == [
        ("description", (4, 19), "host.input")
    ]


def test_answer_and_ledger_have_each_warning_once() -> None:
    entry = {"key": ["gate", "{{model}}"], "content": "{{input}}"}
    other = {"key": ["{{model}}"], "content": "x"}
    answer = turn(entry, other)
    found = [(each.code, each.entry, each.at) for each in answer.warnings]
    assert found == [
        ("value_missing", "book.1", "/key/0"),
        ("value_missing", "book.0", "/content"),
    ]
    events = [each.macro for each in answer.events if each.kind == "value_missing"]
    assert events == list(answer.warnings)
    assert json.loads(answer.to_json())["warnings"][0] == {
        "code": "value_missing",
        "message": "{{model}} has no value: give `macros.host.model`.",
        "entry": "book.1",
        "at": "/key/0",
        "macro": "model",
        "span": [0, 9],
        "missing": "host.model",
    }


def test_warning_of_a_prompt_names_the_prompt() -> None:
    prompts = [{"name": "p", "value": "{{input}}"}]
    (warning,) = turn({"key": ["gate"], "content": "x"}, prompts=prompts).warnings
    assert (warning.entry, warning.at) == (None, "/prompts/0/value")


# Limits


def test_nest_that_is_too_deep_stays_as_written() -> None:
    nest = "{{reverse::" * (MAX_DEPTH + 1) + "ab" + "}}" * (MAX_DEPTH + 1)
    text, warnings = warnings_of(nest)
    assert text in ("{{reverse::ab}}", "}}ba::esrever{{")
    assert [each.code for each in warnings] == ["macro_too_large"]
    pairs = "{{reverse}}" * (MAX_DEPTH + 1) + "ab" + "{{/reverse}}" * (MAX_DEPTH + 1)
    assert [each.code for each in warnings_of(pairs)[1]] == ["macro_too_large"]
    fits = nest.removeprefix("{{reverse::").removesuffix("}}")
    assert warnings_of(fits) == ("ab", [])


@pytest.mark.parametrize(
    "text", ["{{newline::10001}}", "{{space::99999999999999999999}}", "{{roll::10001d6}}"]
)
def test_count_that_is_too_large_stays_as_written(text: str) -> None:
    told, warnings = warnings_of(text)
    assert (told, [each.code for each in warnings]) == (text, ["macro_too_large"])


def test_text_that_doubles_is_bounded_before_it_is_built() -> None:
    text = "{{setvar::x::" + "y" * 1_000 + "}}" + "{{.x += {{.x}}}}" * 100
    with pytest.raises(TooExpensiveError):
        expand(text + "{{.x}}" * 1_000)


@pytest.mark.parametrize("engine", ["new", "old"])
@pytest.mark.parametrize("sign", ["<GROUP>", "{{group}}", "{{reverse:{{group}}}}"])
def test_long_values_are_counted_while_they_are_put_in(sign: str, engine: str) -> None:
    members = [{"name": "x" * 500}] * 1_000
    with pytest.raises(TooExpensiveError) as told:
        expand(sign * 10_000, engine, macros={**NAMES, "group_members": members})
    assert told.value.details["chars"] < 12_000_000


def test_variables_are_bounded_in_number_and_size() -> None:
    full = {"local": {f"v{number}": "" for number in range(MAX_VARIABLES)}}
    text, warnings = warnings_of("{{setvar::new::1}}{{.other++}}{{.v1 = 2}}{{.v1}}", variables=full)
    assert text == "{{setvar::new::1}}{{.other++}}2"
    assert [each.code for each in warnings] == ["macro_too_large"] * 2
    old, warnings = warnings_of("{{setvar::new::1}}{{getvar::v1}}", "old", variables=full)
    assert (old, len(warnings)) == ("{{setvar::new::1}}", 1)
    long = {"local": {"a": "x" * MAX_VARIABLE_CHARS}}
    assert expand("{{addvar::a::y}}", variables=long) == "{{addvar::a::y}}"
    with pytest.raises(ValidationFailedError):
        expand("", variables={"local": {"a": "x" * (MAX_VARIABLE_CHARS + 1)}})
    many = {"local": {f"v{number}": "x" * 90_000 for number in range(12)}}
    with pytest.raises(ValidationFailedError) as told:
        expand("", variables=many)
    assert "1000000 characters" in str(told.value)


def test_list_that_a_key_extends_is_bounded() -> None:
    assert expand("{{setvarkey::a::10000::x}}") == "{{setvarkey::a::10000::x}}"
    assert expand("{{setvarkey::a::2::x}}{{.a}}") == '[null,null,"x"]'


def test_deep_json_is_plain_text() -> None:
    deep = "[" * 200 + "]" * 200
    assert expand("{{addvar::a::1}}{{getvar::a}}", variables={"local": {"a": deep}}) == deep + "1"


# Variables


def test_numbers_and_texts_are_told_apart_in_the_answer() -> None:
    content = (
        "{{setvar::a::1}}{{incvar::b}}{{addvar::c::0.5}}{{addvar::d::1e308}}{{addvar::d::1e308}}"
    )
    answer = turn({"constant": True, "content": content}, variables={"global": {"g": 2}})
    local = {"a": "1", "b": 1, "c": 0.5, "d": "Infinity"}
    assert answer.variables == {"local": local, "global": {"g": 2}}
    again = turn({"constant": True, "content": "{{.b++}}"}, variables=answer.variables)
    assert again.variables["local"]["b"] == 2


@pytest.mark.parametrize(
    ("key", "found"),
    [("0", "x"), ("1", "[2]"), ("2", ""), ("-1", ""), ("k", ""), ("0.5", "")],
)
def test_key_of_a_list(key: str, found: str) -> None:
    assert expand("{{getvarkey::l::" + key + "}}", variables={"local": {"l": '["x",[2]]'}}) == found


def test_key_of_an_object() -> None:
    variables = {"local": {"o": '{"1":"a","k":{"z":null},"n":"007","t":true}', "x": 5}}
    text = "{{getvarkey::o::1}}{{getvarkey::o::k}}{{getvarkey::o::n}}{{getvarkey::o::t}}"
    assert expand(text, variables=variables) == 'a{"z":null}7true'
    assert expand("{{setvarkey::x::k::1}}{{.x}}{{getvarkey::x::k}}", variables=variables) == "5"


def test_old_engine_joins_a_list_by_commas() -> None:
    variables = {"local": {"l": "[1,null]", "n": 3}}
    assert expand("{{decvar::l}} {{decvar::n}}", "old", variables=variables) == "1,,-1 2"


def test_replayed_chat_keeps_its_variables() -> None:
    content = "{{incvar::n}}"
    first = turn({"constant": True, "content": content})
    second = turn({"constant": True, "content": content}, variables=first.variables)
    assert second.world_info_before == "2"


# Chance and time


def test_generator_of_picks() -> None:
    """The first numbers of seedrandom 3.0.5, from the examples of its manual."""
    assert first_draw("hello.") == 0.9282578795792454
    assert first_draw("hello") == 0.5463663768140734


@pytest.mark.parametrize(
    ("text", "milliseconds", "is_local"),
    [
        ("2026-03-09", 1773014400000, True),
        ("2026-03-09T14:07:09.5+09:00", 1773032829500, False),
        ("20260309T1407", 1773065220000, True),
        ("Mon, 09 Mar 2026 14:07:09 GMT", 1773065229000, False),
        ("9 Mar 2026 14:07 -0100", 1773068820000, False),
        ("March 9, 2026 2:07 pm", 1773065220000, True),
        ("3/9/2026, 12:00 AM", 1773014400000, True),
        ("2026/3/9", 1773014400000, True),
        ("2026", 1767225600000, True),
        ("2024-02-29", 1709164800000, True),
    ],
)
def test_dates(text: str, milliseconds: int, *, is_local: bool) -> None:
    assert read_date(text) == (milliseconds, is_local)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "14:07",
            "2:07 PM",
            "tomorrow",
            "2026-13-01",
            "2026-00-01",
            "2026-02-29",
            "2026-04-31",
        ),
        *("March 40, 2026", "Foo 9, 2026", "9 Mar 2026 14:07 XYZ", "9 Mar 2026 25:00", "x" * 200),
        *("March 9, 2026 13:07 pm", "٣/9/2026"),
    ],
)
def test_texts_that_are_no_dates(text: str) -> None:
    assert read_date(text) is None


def test_times_of_sending() -> None:
    assert read_sent(1773064620000.0) == (1773064620000, False)
    assert read_sent("1773064620000") == (1773064620000, False)
    assert read_sent("2026-3-8 @14h 7m 9s 12ms") == (1772978829012, False)
    assert read_sent("2026-3-8@14h7m9s") == (1772978829000, False)
    assert read_sent("2026-3-40@14h7m9s") is None
    assert read_sent("9" * 200) is None


def test_difference_of_a_local_and_an_exact_date_needs_the_zone() -> None:
    text = "{{timeDiff::2026-03-09 14:00::2026-03-09T00:00:00Z}}"
    assert expand(text) == text
    assert expand(text, macros=TIME) == "in 5 hours"


def test_format_of_times() -> None:
    time = LocalTime(Moment(-1, -90))
    assert time.format("YYYY-MM-DD HH:mm:ss.SSS Z kk Mo DDDD E e GG YY S SS Wo do") == (
        "1969-12-31 22:29:59.999 -01:30 22 12th 365 3 3 70 69 9 99 1st 3rd"
    )
    assert time.format("ll lll llll") == (
        "Dec 31, 1969 Dec 31, 1969 10:29 PM Wed, Dec 31, 1969 10:29 PM"
    )


@pytest.mark.parametrize(
    "macros",
    [
        *({"time": "2026-03-09"}, {"time": "9999-12-31T00:00:00Z"}, {"time": "noon"}),
        *({"timezone": "Mars/Base"}, {"timezone": "+25:00"}, {"timezone": "../etc/passwd"}),
        *({"timezone": ""}, {"time": "2026-03-09T14:07:09"}),
    ],
)
def test_times_and_zones_that_are_refused(macros: dict[str, str]) -> None:
    with pytest.raises(ValidationFailedError):
        expand("", macros=macros)


def test_zone_by_default_is_that_of_the_time() -> None:
    macros = {"time": "2026-03-09T14:07:09-03:30"}
    assert expand("{{isotime}} {{datetimeformat::Z}}", macros=macros) == "14:07 -03:30"
    assert expand("{{isotime}}", macros={**macros, "timezone": "-01:00"}) == "16:37"


# Keys and scans


def test_names_in_a_regex_key() -> None:
    answer = turn({"key": ["/{{char}} (?:waits|sleeps)/"], "content": "x"}, chat="Mira sleeps")
    assert [each.key for each in answer.activated] == ["/{{char}} (?:waits|sleeps)/"]


def test_regex_key_of_a_variable_that_cannot_be_evaluated_is_reported() -> None:
    key = "/{{getvar::p}}/"
    answer = turn(
        {"key": [key], "content": "x"},
        chat="a" * 60,
        variables={"local": {"p": "(a+)+$(?!)"}},
    )
    events = [(each.kind, each.key) for each in answer.events if each.kind == "regex_timeout"]
    assert events == [("regex_timeout", key)] * len(events)
    assert not answer.activated


def test_old_engine_runs_the_card_at_every_test_of_a_key() -> None:
    macros = {**NAMES, "description": "{{incvar::c}}"}
    entries = [{"key": ["gate"], "content": "{{getvar::c}}"}, {"key": ["/x/", "mill"]}]
    answer = turn(*entries, settings={"macro_engine": "old"}, macros=macros)
    assert answer.world_info_before == "4"
    assert answer.variables["local"] == {"c": 6}


def test_content_that_does_not_fit_is_expanded_from_the_stored_text() -> None:
    entries = [
        {"constant": True, "order": 9, "content": "{{.n++}} " + "long " * 40},
        {"constant": True, "content": "mill"},
        {"key": ["mill"], "content": "x"},
    ]
    settings = {"world_info_budget": 100, "world_info_budget_cap": 20}
    answer = turn(*entries, settings=settings, mending={"budget": True})
    assert [each.id for each in answer.activated] == ["book.1", "book.2"]
    assert answer.variables["local"]["n"] >= 1


def test_extra_macros_of_a_host() -> None:
    macros = {**NAMES, "extra": {"Summary": "They met."}}
    assert expand("{{summary}} {{ SUMMARY }}", macros=macros) == "They met. They met."
    assert expand("{{summary}} {{nobody}}", "old", macros=macros) == "They met. {{nobody}}"
    assert expand("{{if summary}}a{{/if}}", macros=macros) == "a"


def test_examples_for_text_completions_have_the_separator() -> None:
    macros = {**NAMES, "example_messages": "<start>\nA: 1\n<START>B: 2"}
    for separator, heading in (("***", "***\n"), ("", "")):
        host = {"completion": "text", "example_separator": separator}
        for engine in ("new", "old"):
            told = expand("{{mesExamples}}", engine, macros={**macros, "host": host})
            assert told == f"{heading}A: 1\n{heading}B: 2\n"


def test_card_macros_are_empty_in_the_card() -> None:
    macros = {**NAMES, "description": "[{{greeting}}{{version}}{{persona}}]", "first_message": "x"}
    assert expand("{{description}}", macros=macros) == "[]"


@pytest.mark.parametrize("engine", ["new", "old"])
def test_system_prompt_is_the_users_unless_the_card_is_preferred(engine: str) -> None:
    host = {"system_prompt": {"enabled": True, "content": "Write."}}
    macros = {**NAMES, "system_prompt": "Stay {{char}}."}
    text = "{{systemPrompt}}|{{charPrompt}}"
    assert expand(text, engine, macros={**macros, "host": host}) == "Stay Mira.|Stay Mira."
    own = {**host, "prefer_character_prompt": False}
    assert expand(text, engine, macros={**macros, "host": own}) == "Write.|"
    assert expand(text, engine, macros=macros) == "|Stay Mira."


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("{{space::{{newline}}2}}", "{{space::\n2}}"),
        ("{{setvar::a}}x{{/setvar}}{{.a}}", "x"),
        ("{{ /if {{user}} }}", "{{ /if Tom }}"),
        ("{{if !!user}}a{{else}}b{{/if}}", "b"),
        ("{{if ! persona}}a{{/if}}", "a"),
        ("{{if::{{user}}::a{{else}}b}}", "a"),
        ("{{if .a.b}}a{{/if}}", "a"),
        ("{{#if user}} a {{/if}}", " a "),
        ("{{mood}} a {{user}} {{/mood}}", "{{mood}} a Tom }}"),
        ("{{comment}}{{.a++}}{{/comment}}{{.a}}", "1"),
        ("{{pick}}{{/pick}}", "{{pick}}{{/pick}}"),
        ("{{.a ?? {{user}}}}", "Tom"),
        ("{{.a >= 0}} {{.a <= -1}} {{.a == }} {{.a != }}", "true false true false"),
        ("{{.a #}}{{.a ~ }}{{.a word!}}", ""),
        ("{{$a = 1}}{{if $a}}x{{/if}}", "x"),
        ("{{hasExtension::a}}{{mesExamples}}", "false"),
        ("{{unknown::{{if user}}a{{/if}}}}", "{{unknown::a}}"),
        ("{{reverse::a {{1}} b}}", "1{{ a b}}"),
        ("{{roll:" + "1" * 60 + "}}", ""),
    ],
)
def test_grammar(text: str, expanded: str) -> None:
    assert expand(text) == expanded


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("{{setvar::a:b}}{{setvar::a::}}{{getvar::a}}|", "{{setvar::a:b}}|"),
        ("{{addvar::a::}}{{addvar::a", "{{addvar::a::}}{{addvar::a"),
        ("{{reverse:a\nb}} {{reverse:}}}}", "{{reverse:a\nb}} }}"),
        ('{{banned "a"}} {{banned "b"}}|\n{{banned "c}}', '|\n{{banned "c}}'),
        ("{{roll:}}{{roll:10001d6}}{{roll", "{{roll:}}{{roll:10001d6}}{{roll"),
        ("{{timeDiff::a}}{{timeDiff::a::b}}", "{{timeDiff::a}}Invalid date"),
        ("{{original}}{{if user}}", "{{original}}{{if user}}"),
        ("{{// open", "{{// open"),
        ("{{outlet::}}{{outlet::a}}{{reverse:a}}{{reverse:b}}", "ab"),
        ('{{banned "a"}}{{banned "}}{{banned "', '{{banned "'),
        ("{{random::}}{{random:}}{{pick::}}", ":{{random:}}:"),
        ("{{instructFirstOutput}}{{instructFirstOutputPrefix}}", "{{instructFirstOutputPrefix}}"),
        ("{{mesExamples}}{{version}}{{charVersion}}", "{{version}}"),
    ],
)
def test_grammar_of_the_old_engine(text: str, expanded: str) -> None:
    assert expand(text, "old") == expanded
