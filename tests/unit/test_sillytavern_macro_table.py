"""Sentences of the rules of macros that the golden cases leave open, in a line or two each.

The expected texts follow from docs/rules/sillytavern-macros.md alone.
"""

from __future__ import annotations

import pytest

from lorewell.engine.sillytavern.macros.old_passes import PASSES
from lorewell.engine.sillytavern.macros.table import MACROS
from macro_texts import expand

SCENE = {
    "macros": {
        "user": "Tom",
        "char": "Mira",
        "persona": "",
        "description": " {{user}}, {{persona}}{{personality}}! \r\n",
        "personality": "calm",
        "first_message": "hi {{user}}",
        "alternate_greetings": ["雾", "B"],
        "example_messages": "a\n<start>\n b {{user}} ",
        "group_members": [
            {"name": "Mira"},
            {"name": "Bo", "muted": True},
            {"name": "Cy"},
            {"name": "Dee", "missing": True},
        ],
        "messages": [
            {"content": "one {{user}}", "role": "user"},
            {"content": "two", "role": "character", "swipes": 2, "swipe": 0},
            {"content": "hidden", "role": "system"},
            {"content": "now", "role": "character", "swipes": 3, "swipe": 3},
        ],
        "first_included_message": 1,
        "time": "2026-03-09T14:07:09Z",
        "timezone": "-03:30",
        "host": {
            "completion": "text",
            "example_separator": "***",
            "max_response_tokens": 96,
            "instruct": {"enabled": True, "output_sequence": "<out>", "stop_sequence": "<end>"},
            "system_prompt": {"enabled": True, "content": "be {{char}}"},
            "extensions": {"regex": True, "tts": False},
            "last_generation_type": "",
        },
    },
    "draws": [0.5] * 40,
}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        # §3, a macro: braces, blanks, flags, names, separators
        ("{{{{{user}}}|{{user}}}}", "{{{Tom}|Tom}}"),
        ("{{\u00a0char\u2003}}{{!user}}{{?~>user}}{{ ! # user }}", "MiraTomTomTom"),
        ("{{/user}}{{ / user }}{{user {{noop}}}}", "{{/user}}{{ / user }}{{user }}"),
        ("{{reverse:::a}} {{reverse|ab}} {{reverse : a::b }}", "a: ba| b::a"),
        ("[{{setvar::k::::}}] {{setvar::k:::v}}{{.k}}", "[{{setvar::k::::}}] :v"),
        ("{{user::}}{{user:}}{{user }}{{uSeR}}", "{{user::}}{{user:}}TomTom"),
        (
            "{{newline::-0}}{{newline:: 02 }}x{{newline::+2}}{{space::1.0}}",
            "\n\nx{{newline::+2}}{{space::1.0}}",
        ),
        # §3, order of work
        ("\\{\\{trim\\}\\}\n\\\\{", "\\{"),
        ("{{setvar::k::a\n{{trim}}\nb}}[{{.k}}]", "[ab]"),
        ("{{reverse::<uSeR>}}<CHARIFNOTGROUP><bot >", "moTMira, Bo, Cy<bot >"),
        ("{{TIME_utc+2}}|{{time_UTC-3}}|{{ time_UTC+2 }}", "10:37 AM|11:07 AM|{{ time_UTC+2 }}"),
        # §3, pairs
        (
            "{{timeDiff}}x{{/timeDiff}}{{setvar}}k{{/setvar}}",
            "{{timeDiff}}x{{/timeDiff}}{{setvar}}k{{/setvar}}",
        ),
        ("{{a}}{{b}}{{/a}}{{/b}}", "{{a}}{{b}}}}{{/b}}"),
        ("{{mood::{{user}}}}{{char}}{{/MOOD x}}", "{{mood::Tom}}Mira}}"),
        ("{{newline}}x{{/newline}}{{newline}}2{{/newline}}.", "{{newline}}x}}\n\n."),
        ("{{reverse}}\n\t a\n  b\n c\n{{/reverse}}", "c\nb\na"),
        ("{{time}}UTC+15{{/time}} {{time}}UTC+16{{/time}}", "5:07 AM 2:23 PM"),
        # §3, comments
        ("{{// a}}b{{///}}{{comment}}x{{/comment}}{{comment::y}}", "{{// a}}b{{///}}"),
        ("{{// /x}}{{//}}{{ // x\ny }}{{//::a::b}}{{//::a}}", "{{// /x}}{{//}}{{//::a::b}}"),
        # §3, conditions
        ("{{if::user:: {{space}}x }}{{#if::user:: {{space}}x }}", "x x"),
        ("{{if getvar}}a{{/if}}{{if  False }}b{{/if}}{{if TIME}}c{{/if}}{{if . x}}d{{/if}}", "acd"),
        ("{{if {{reverse::resu}}}}a{{/if}}{{if {{noop}}.x}}b{{else}}c{{/if}}", "ac"),
        # §3, short form
        ("{{.a- = 1}}{{.x++ ++}}{{$}}{{. }}", "{{.a- = 1}}{{.x++ ++}}"),
        ("{{.x=1}}{{.x+=2}}{{.x}}{{.x-=5}}{{.x}}{{ . x -- }}", "3-2-3"),
        ("{{setvar::x::007}}{{.x}}{{.x == 7}}{{.x == 007}}{{.x > 6}}", "7truefalsetrue"),
        # §5: names, card, chat, host
        ("{{group}}|{{groupNotMuted}}|{{notChar}}", "Mira, Bo, Cy|Mira, Cy|Cy"),
        ("[{{charDescription}}]{{CHARPERSONALITY}}", "[Tom, !]calm"),
        ("{{greeting}}|{{charFirstMessage 1}}|{{greeting::02}}|{{greeting::3}}", "hi Tom|雾|B|"),
        ("{{mesExamplesRaw}}|{{mesExamples}}", "a\n<start>\n b Tom|***\na\n***\nb Tom\n"),
        (
            "{{lastMessage}}|{{lastMessageId}}|{{lastUserMessage}}|{{lastCharMessage}}",
            "hidden|2|one {{user}}|two",
        ),
        (
            "{{lastSwipeId}}|{{currentSwipeId}}|{{allChatRange}}|{{firstIncludedMessageId}}",
            "3|4|0-3|1",
        ),
        (
            "{{maxPromptTokens}} {{maxContext}} {{maxResponse}} {{lastGenerationType}}",
            "4000 4096 96 normal",
        ),
        (
            "{{instructOutput}}{{instructFirstOutputPrefix}}{{instructLastAssistantPrefix}}",
            "<out>" * 3,
        ),
        ("{{instructStop}}{{instructInput}}{{systemPrompt}}", "<end>be {{char}}"),
        ("{{hasExtension::REGEX}} {{hasExtension tts}} {{hasExtension:x}}", "true false false"),
        # §6: chance, variables, time
        ("{{random}}{{random::}}{{random:a\\,b,c}}{{random::{{noop}}}}", "c"),
        ("{{roll 2D6-1}} {{roll:06}}{{roll:d}}{{roll:1d06}} {{roll: 5 }} {{roll:d6+01}}", "7  3 5"),
        ("{{setvarkey::o::a::1}}{{getvarkey::o::a}}{{getvarkey::o::z}}{{getvar::o}}", '1{"a":"1"}'),
        (
            "{{setglobalvarindex::l::1::x}}{{getglobalvar::l}}{{globalvarexists::l}}",
            '[null,"x"]true',
        ),
        ("{{addvar::l::[1]}}{{addvar::l::2}}{{incvar::l}}{{decvar::l}}", '[1,"2",1][1,"2",1,-1]'),
        ("{{time}}|{{time x}}|{{datetimeformat::}}", "10:37 AM|10:37 AM|2026-03-09T10:37:09-03:30"),
        (
            "{{datetimeformat::YYYY::MM}}{{datetimeformat YYYY::MM}}",
            "{{datetimeformat::YYYY::MM}}2026::03",
        ),
        (
            "{{timeDiff::2026-01-01::2026-01-01}}|{{timeDiff::12:00::13:00}}",
            "a few seconds ago|Invalid date",
        ),
    ],
)
def test_new_engine(text: str, expanded: str) -> None:
    assert expand(text, **SCENE) == expanded


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("{{roll d6}}|{{roll::d6}}|{{roll  d6}}|{{ROLL 2d6}}", "4|||8"),
        ("{{setvar::k::{{user}}}}{{getvar::k}}", "}}{{user"),
        ("{{getvar::x}}{{incvar:: x }}{{getglobalvar::x}}{{setglobalvar:: x :: y }}", "11 y "),
        (
            "{{random: a::b }}|{{random ::a::b}}|{{random: a , b }}|{{random a,b}}",
            "b |b|b|{{random a,b}}",
        ),
        ("{{datetimeformat  YYYY}}{{datetimeformat:YYYY}}", "2026{{datetimeformat:YYYY}}"),
        (
            "{{time_UTC+2}}|{{time_utc-3}}|{{time_UTC+16}}|{{time::UTC+2}}",
            "4:07 PM|11:07 AM|2:23 PM|{{time::UTC+2}}",
        ),
        ("{{notChar}}|{{groupNotMuted}}|<GROUP>", "Bo, Cy, Tom|Mira, Cy|Mira, Bo, Cy"),
        ("{{description}}", "Tom, calm!"),
        (
            "{{systemPrompt}}{{instructLastOutput}}{{instructLastOutputPrefix}}",
            "be Mira<out>{{instructLastOutputPrefix}}",
        ),
        ("{{user }}{{ user}}{{USER}}\\{x\\}", "{{user }}{{ user}}Tom\\{x\\}"),
        (
            "{{lastMessage}}{{currentSwipeId}}{{idle_duration}}{{idleDuration}}",
            "hidden4just now{{idleDuration}}",
        ),
    ],
)
def test_old_engine(text: str, expanded: str) -> None:
    assert expand(text, "old", **SCENE) == expanded


def test_names_of_macros_ignore_case_in_both_engines() -> None:
    for name in MACROS:
        assert expand(f"{{{{{name.upper()}}}}}", **SCENE) == expand(
            f"{{{{{name}}}}}", **SCENE
        ).replace(f"{{{{{name}}}}}", f"{{{{{name.upper()}}}}}")
    for name in ("charprompt", "notchar", "isodate", "maxcontexttokens"):
        assert name in {each.name for each in PASSES}
        assert expand(f"{{{{{name}}}}}", "old", **SCENE) == expand(
            f"{{{{{name.upper()}}}}}", "old", **SCENE
        )
