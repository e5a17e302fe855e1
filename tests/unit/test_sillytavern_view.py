"""An entry as SillyTavern would hold it: raw, overlaid by what was changed since."""

from __future__ import annotations

from typing import Any

import pytest

from lorewell.engine.sillytavern.entry import Form, import_entry, overlaid, sillytavern_view
from lorewell.engine.sillytavern.entry.view import file_view
from lorewell.model import Entry, SillyTavernBlock
from lorewell.model.parse import parse_model

FORMATS: dict[Form, str] = {"world_info": "st_world", "card": "chara_card_v3"}


def imported(raw: dict[str, Any], form: Form = "world_info", entry_id: str = "3") -> Entry:
    read = import_entry(raw, form=form, entry_id=entry_id, source_format=FORMATS[form])
    return parse_model(Entry, read.entry)


def changed(entry: Entry, **fields: object) -> Entry:
    return parse_model(Entry, {**entry.model_dump(), **fields})


WORLD: dict[str, Any] = {
    "uid": 3,
    "key": ["灯", "/ล(ำ)ปาง/"],
    "comment": "Маяк",
    "order": "100",
    "未知": {"x": [None]},
    "content": "ランプ 🏮",
    "position": 7,
    "sticky": 0,
    "probability": 40,
    "useProbability": False,
}
CARD: dict[str, Any] = {
    "id": 3,
    "keys": ["灯"],
    "content": "ランプ 🏮",
    "extensions": {"depth": "2", "display_index": 0, "chub": {"id": 1}},
    "insertion_order": 5,
    "use_regex": True,
}


def test_an_untouched_world_entry_is_its_raw_self_in_its_own_order() -> None:
    view = sillytavern_view(imported(WORLD))
    assert list(view.items()) == list(WORLD.items())


def test_a_change_stands_in_its_place_and_odd_values_stay() -> None:
    entry = changed(imported(WORLD), title="Гавань", enabled=False)
    assert list(sillytavern_view(entry).items()) == [
        *(WORLD | {"comment": "Гавань"}).items(),
        ("disable", True),
    ]


def test_a_card_is_shown_as_sillytavern_converts_it() -> None:
    view = sillytavern_view(imported(CARD, "card"))
    assert view == {
        "uid": 3,
        "key": ["灯"],
        "keysecondary": [],
        "comment": "",
        "content": "ランプ 🏮",
        "constant": False,
        "selective": False,
        "order": 5,
        "position": 1,
        "excludeRecursion": False,
        "preventRecursion": False,
        "delayUntilRecursion": 0,
        "disable": False,
        "displayIndex": 0,
        "probability": 100,
        "useProbability": True,
        "depth": "2",
        "selectiveLogic": 0,
        "outletName": "",
        "group": "",
        "groupOverride": False,
        "groupWeight": 100,
        "scanDepth": None,
        "caseSensitive": None,
        "matchWholeWords": None,
        "useGroupScoring": None,
        "automationId": "",
        "role": 0,
        "vectorized": False,
        "sticky": None,
        "cooldown": None,
        "delay": None,
        "matchPersonaDescription": False,
        "matchCharacterDescription": False,
        "matchCharacterPersonality": False,
        "matchCharacterDepthPrompt": False,
        "matchScenario": False,
        "matchCreatorNotes": False,
        "triggers": [],
        "ignoreBudget": False,
        "extensions": CARD["extensions"],
        "use_regex": True,
    }
    assert next(iter(view)) == "uid"
    assert list(view)[-2:] == ["extensions", "use_regex"]


def test_a_cards_own_words_are_translated() -> None:
    raw = {
        "enabled": "false",
        "position": "before_char",
        "key_logic": "NOT_ALL",
        "extensions": {"character_filter": {"names": ["Мара"]}},
    }
    view = sillytavern_view(imported(raw, "card"))
    assert (view["disable"], view["position"], view["selectiveLogic"]) == (True, 0, 1)
    assert view["characterFilter"] == {"names": ["Мара"]}


@pytest.mark.parametrize("position", [8, "nowhere", []])
def test_an_unreadable_position_of_a_card_is_where_cards_go(position: object) -> None:
    view = sillytavern_view(imported({"extensions": {"position": position}}, "card"))
    assert view["position"] == 1


def test_an_unreadable_enabled_of_a_card_is_enabled() -> None:
    assert sillytavern_view(imported({"enabled": "?"}, "card"))["disable"] is False


def test_a_change_is_written_under_every_name_that_raw_has() -> None:
    both = {"key": ["a"], "keys": ["a"], "order": 1, "insertion_order": 1, "disable": False}
    both |= {"enabled": True, "extensions": {"position": 0}, "position": 0}
    for form in FORMATS:
        entry = imported(both, form, "entry-0")
        after = changed(entry, keys=["塔"], order=2, enabled=False, position="at_depth")
        own = overlaid(after)
        assert own["key"] == own["keys"] == ["塔"]
        assert own["order"] == own["insertion_order"] == 2
        assert (own["disable"], own["enabled"]) == (True, False)
        assert own["extensions"] == {"position": 4}
        assert own["position"] == (4 if form == "world_info" else "after_char")


def test_a_cards_change_stands_where_a_card_has_it() -> None:
    entry = imported({"name": "灯", "position": "after_char"}, "card", "entry-0")
    after = changed(entry, title="塔", position="before_character", priority=2, depth=9)
    assert overlaid(after) == {
        "name": "塔",
        "position": "before_char",
        "comment": "塔",
        "extensions": {"position": 0, "depth": 9},
        "priority": 2,
    }


def test_odd_extensions_give_way_only_to_a_change() -> None:
    entry = imported({"extensions": "none"}, "card", "entry-0")
    assert overlaid(entry) == {"extensions": "none"}
    assert overlaid(changed(entry, depth=1)) == {"extensions": {"depth": 1}}


def test_raw_itself_is_never_changed() -> None:
    raw: dict[str, Any] = {"extensions": {"depth": 1, "lorewell": {"x": 1}}}
    entry = imported(raw, "card", "entry-0")
    overlaid(changed(entry, depth=2, required=True))
    assert raw == {"extensions": {"depth": 1, "lorewell": {"x": 1}}}
    assert entry.source["raw"] == raw


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"probability": 30}, {"probability": 30, "useProbability": True}),
        ({"sillytavern": None}, {"probability": 100, "useProbability": True}),
        ({"sillytavern": {"use_probability": False, "sticky": 2}}, {"sticky": 2}),
        ({"position": "after_character"}, {"position": 1}),
        ({"position": "outlet", "outlet_name": "棚"}, {"position": 7, "outletName": "棚"}),
        ({"case_sensitive": True}, {"caseSensitive": True}),
        ({"conflict_key": "group:港"}, {"group": "港"}),
        (
            {"conflict_key": "group:a,b"},
            {"extensions": {"lorewell": {"conflict_key": "group:a,b"}}},
        ),
        ({"conflict_key": "free"}, {"extensions": {"lorewell": {"conflict_key": "free"}}}),
        ({"kind": "rule"}, {"extensions": {"lorewell": {"kind": "rule"}}}),
        (
            {"runtime_requirements": ()},
            {"extensions": {"lorewell": {"runtime_requirements": []}}},
        ),
        (
            {"conditions": [{"path": "天気", "op": "exists"}], "priority": 4},
            {
                "extensions": {
                    "lorewell": {
                        "conditions": [{"path": "天気", "op": "exists", "value": True}],
                        "priority": 4,
                    }
                }
            },
        ),
    ],
)
def test_core_and_block_decide_together_and_the_core_wins(
    fields: dict[str, Any], shown: dict[str, Any]
) -> None:
    entry = imported(WORLD)
    assert sillytavern_view(changed(entry, **fields)) == WORLD | shown


def test_the_core_wins_over_a_group_in_the_block() -> None:
    raw = {"group": "a,b", "key": [], "content": "", "uid": 3}
    entry = imported(raw)
    assert entry.sillytavern == SillyTavernBlock(group="a,b")
    assert sillytavern_view(changed(entry, conflict_key="group:c"))["group"] == "c"
    assert sillytavern_view(changed(entry, conflict_key="c"))["group"] == "a,b"


def test_a_flag_that_follows_the_settings_can_be_set_to_false() -> None:
    entry = imported({"uid": 3})
    explicit = changed(entry, case_sensitive=False)
    assert sillytavern_view(explicit)["caseSensitive"] is False
    assert "matchWholeWords" not in sillytavern_view(explicit)
    kept = changed(explicit, sillytavern={"sticky": 2, "inherit": ["case_sensitive"]})
    assert sillytavern_view(kept)["caseSensitive"] is False
    assert "caseSensitive" not in sillytavern_view(changed(explicit, case_sensitive=None))


def test_entries_that_were_stored_with_two_valued_flags_mean_the_same() -> None:
    raw = {"uid": 3, "caseSensitive": None}
    stored = changed(
        imported(raw),
        case_sensitive=False,
        match_whole_words=False,
        source={"format": "st_world", "raw": raw},
    )
    assert sillytavern_view(stored)["caseSensitive"] is None
    assert "matchWholeWords" not in sillytavern_view(stored)
    explicit = changed(stored, sillytavern={"inherit": ["match_whole_words"]})
    assert sillytavern_view(explicit)["caseSensitive"] is False
    assert "matchWholeWords" not in sillytavern_view(explicit)


def test_a_filter_is_shown_in_sillytaverns_words() -> None:
    entry = imported({"uid": 3, "characterFilter": None})
    chosen = {"is_exclude": True, "names": ["Мара", "麻拉"]}
    after = changed(entry, sillytavern={"character_filter": chosen})
    expected = {"isExclude": True, "names": ["Мара", "麻拉"], "tags": []}
    assert sillytavern_view(after)["characterFilter"] == expected
    raw = {"uid": 3, "characterFilter": expected}
    assert sillytavern_view(changed(imported(raw), sillytavern=None))["characterFilter"] is None


def test_world_entries_in_a_cards_words_are_shown_under_their_own_names() -> None:
    raw = {"uid": 3, "keys": ["灯"], "content": "x", "comment": "", "name": "塔", "disable": True}
    view = sillytavern_view(imported(raw | {"enabled": True}))
    assert list(view.items())[: len(raw)] == [*(raw | {"comment": "塔"}).items()]
    assert (view["key"], view["disable"]) == (["灯"], True)


def test_a_scan_sees_a_world_entry_as_its_file_has_it() -> None:
    raw = {"uid": 3, "key": ["灯"], "case_sensitive": False, "keys": ["塔"]}
    entry = imported(raw)
    assert sillytavern_view(entry)["caseSensitive"] is False  # the words of both programs count
    assert file_view(entry) == raw  # in SillyTavern one of them
    assert file_view(imported(raw, entry_id="3-2")) == raw


def test_a_scan_sees_a_change_under_sillytaverns_name() -> None:
    raw = {"uid": 3, "key": ["灯"], "case_sensitive": False, "keys": ["塔"]}
    after = changed(imported(raw), case_sensitive=True, keys=["塔楼"])
    assert file_view(after) == {
        "uid": 3,
        "key": ["塔楼"],
        "case_sensitive": True,
        "keys": ["塔楼"],
        "caseSensitive": True,
    }


def test_a_world_entry_without_a_uid_gets_one() -> None:
    assert file_view(imported({"key": ["灯"]}, entry_id="entry-4")) == {
        "uid": "entry-4",
        "key": ["灯"],
    }


def test_entries_of_other_files_and_dialects_are_converted_for_a_scan() -> None:
    assert file_view(imported(CARD, "card")) is None
    assert file_view(imported({"keys": ["灯"], "insertion_order": 5})) is None
    assert file_view(Entry(id="lamp", content="")) is None


@pytest.mark.parametrize("container", FORMATS)
def test_an_entry_is_shown_in_its_own_dialect_whatever_its_file_is(container: Form) -> None:
    card = {"id": 3, "keys": ["灯"], "content": "x", "enabled": True}
    world = {"uid": 3, "key": ["灯"], "content": "x", "disable": False}
    as_card, as_world = (
        parse_model(
            Entry,
            import_entry(raw, form=form, entry_id="3", source_format=FORMATS[container]).entry,
        )
        for raw, form in ((card, "card"), (world, "world_info"))
    )
    assert (as_card.position, sillytavern_view(as_card)["position"]) == ("after_character", 1)
    assert as_world.position == "before_character"
    assert sillytavern_view(as_world) == world


def test_a_native_entry_shows_what_differs_from_sillytaverns_defaults() -> None:
    entry = Entry(id="港-1", content="An oil lamp.", keys=("lamp",))
    assert sillytavern_view(entry) == {
        "uid": "港-1",
        "key": ["lamp"],
        "content": "An oil lamp.",
        "order": 0,
        "depth": 0,
        "excludeRecursion": True,
        "preventRecursion": True,
    }
    bare = sillytavern_view(Entry(id="7", content="", source={"format": "x", "raw": "?"}))
    assert (bare["uid"], bare["key"], bare["content"]) == (7, [], "")


@pytest.mark.parametrize(
    "written", ["nai_lorebook", "replica", "chara_card_vX", None, ["st_world"]]
)
def test_raw_of_other_programs_is_not_read_as_a_card(written: object) -> None:
    raw = {"text": "…", "keys": ["old"], "order": 5, "id": "b", "contextConfig": {}}
    source = {"format": written, "raw": raw}
    entry = Entry(id="a", content="Ночь", keys=("лес",), order=7, source=source)
    native = entry.model_copy(update={"source": {}})
    assert sillytavern_view(entry) == sillytavern_view(native)
    assert overlaid(entry) == overlaid(native)
    assert (sillytavern_view(entry)["key"], sillytavern_view(entry)["order"]) == (["лес"], 7)


@pytest.mark.parametrize("written", ["character_book", "lorebook_v3", "chara_card_v1"])
def test_raw_of_every_kind_of_card_is_read(written: str) -> None:
    entry = changed(imported(CARD, "card"), source={"format": written, "raw": CARD})
    assert sillytavern_view(entry)["extensions"] == CARD["extensions"]


@pytest.mark.parametrize(
    ("raw", "entry_id", "uid", "written"),
    [
        ({"uid": 3}, "3", 3, {"uid": 3}),
        ({"uid": "3"}, "3", "3", {"uid": "3"}),
        ({"uid": 3}, "3-2", "3-2", {"uid": 3}),
        ({"uid": 3}, "3x", "3x", {"uid": "3x"}),
        ({"uid": 3}, "灯", "灯", {"uid": "灯"}),
        ({"id": 3}, "3", 3, {"id": 3}),
        ({"id": 3, "uid": 3}, "4", 4, {"id": 4, "uid": 4}),
        ({"uid": None}, "entry-7", "entry-7", {"uid": None}),
        ({}, "entry-7", "entry-7", {}),
        ({}, "entry-7-2", "entry-7-2", {}),
        ({}, "12", 12, {"uid": 12}),
        ({}, "012", "012", {"uid": "012"}),
        ({}, "None-2", "None-2", {"uid": "None-2"}),
    ],
)
def test_the_view_always_has_an_id_and_the_raw_form_only_a_chosen_one(
    raw: dict[str, Any], entry_id: str, uid: object, written: dict[str, Any]
) -> None:
    entry = imported(raw, entry_id=entry_id)
    assert sillytavern_view(entry)["uid"] == uid
    assert overlaid(entry) == written


def test_a_cards_id_becomes_the_uid() -> None:
    view = sillytavern_view(imported({"id": 9, "uid": 1}, "card", "9"))
    assert view["uid"] == 9
    assert "id" not in view
