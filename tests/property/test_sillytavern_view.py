"""The view means what core and block mean, shows every change, and leaves the rest as it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, given, strategies as st

from lorewell.engine.sillytavern.entry import (
    Form,
    form_of,
    import_entry,
    overlaid,
    read_entry,
    sillytavern_view,
)
from lorewell.engine.sillytavern.entry.fields import DEFAULT_BLOCK, INHERITED, find_value
from lorewell.engine.sillytavern.entry.table import TABLE
from lorewell.engine.sillytavern.entry.view import file_view
from lorewell.model import Entry, SillyTavernBlock
from lorewell.model.parse import parse_model
from property.foreign import FORMS, block_changes, core_changes, raw_entries
from property.strategies import entries
from support import Document

FORM = st.sampled_from(sorted(FORMS))
OWN = {"id", "source", "sillytavern", "outlet_name"}
CORE = sorted(set(Entry.model_fields) - OWN)
BLOCK = sorted(set(SillyTavernBlock.model_fields) - {"inherit"})  # an import does not use it
KNOWN = {*read_entry({}, form="card").core}
# Members that are shown together with another one.
PARTNERS = {
    "position": {"outletName"},
    "use_probability": {"probability"},
    "probability": {"useProbability"},
    "conflict_key": {"group", "lorewell/conflict_key"},
}


def imported(raw: Document, container: Form, entry_id: str = "entry-3") -> Entry:
    """Return an entry of a file in that dialect; the entry itself may be in the other one."""
    form = form_of(raw, container)
    read = import_entry(raw, form=form, entry_id=entry_id, source_format=FORMS[container])
    return parse_model(Entry, read.entry)


def meaning(raw: Document, form: Form) -> tuple[Document, Document, tuple[str, ...]]:
    read = read_entry(raw, form=form)
    return read.core, read.block, tuple(need.requirement for need in read.needs)


def flat(view: Document) -> Document:
    """Return the members of a view by path, those of `extensions` and `lorewell` one by one."""
    extensions = view.get("extensions")
    below = dict(extensions) if isinstance(extensions, dict) else {}
    ours = below.pop("lorewell", None) or {}
    found = {name: value for name, value in view.items() if name != "extensions"}
    found |= {f"extensions/{name}": value for name, value in below.items()}
    return found | {f"lorewell/{name}": value for name, value in ours.items()}


def names_of(field_name: str) -> set[str]:
    """Return every name that a view may show the field under."""
    named = {f"lorewell/{field_name}", *PARTNERS.get(field_name, ())}
    for field in TABLE:
        if field.name == field_name or field.world in PARTNERS.get(field_name, ()):
            named |= {name.path for name in field.names["world_info"]}
    if field_name == "conflict_key":
        named |= names_of("group")
    return named


@given(raw_entries(), FORM)
def test_the_view_means_what_the_raw_entry_means(raw: Document, container: Form) -> None:
    entry = imported(raw, container)
    view = sillytavern_view(entry)
    assert meaning(view, "world_info") == meaning(raw, form_of(raw, container))
    json.dumps(view)


@given(raw_entries(), FORM)
def test_an_untouched_entry_gives_raw_again(raw: Document, container: Form) -> None:
    before = json.dumps(raw)
    form = form_of(raw, container)
    first, second = ("uid", "id") if form == "world_info" else ("id", "uid")
    given_id = raw.get(first) if raw.get(first) is not None else raw.get(second)
    entry_id = "entry-3" if given_id is None else str(given_id)
    assume(entry_id and entry_id.isprintable())
    entry = imported(raw, container, entry_id)
    assert json.dumps(overlaid(entry)) == before
    if form == "world_info":
        view = sillytavern_view(entry)
        shown = {name: view[name] for name in raw}
        own = {f.world for f in TABLE if (w := find_value(raw, f, form)) and w[0].path != f.world}
        assert {n: v for n, v in shown.items() if n not in own | {"uid"}} == {
            n: v for n, v in raw.items() if n not in own | {"uid"}
        }
        assert [name for name in view if name in raw] == list(raw)
    assert json.dumps(raw) == before


def changed_core(entry: Entry, name: str, value: object) -> Entry:
    document = entry.model_dump() | {name: value}
    if name == "position":
        document["outlet_name"] = "棚の上" if value == "outlet" else None
    return parse_model(Entry, document)


def changed_block(entry: Entry, name: str, value: object) -> Entry:
    block = entry.sillytavern.model_dump() if entry.sillytavern else dict(DEFAULT_BLOCK)
    return parse_model(Entry, entry.model_dump() | {"sillytavern": block | {name: value}})


def changed_members(old: Document, new: Document) -> set[str]:
    """Return the members that differ as JSON: there true is not 1."""
    absent = object()
    pairs = {name: (old.get(name, absent), new.get(name, absent)) for name in old | new}
    return {
        name
        for name, (was, now) in pairs.items()
        if was is absent or now is absent or json.dumps(was) != json.dumps(now)
    }


def check_change(before: Entry, after: Entry, name: str) -> Document:
    """Check that the views differ, and in the members of that field alone; return the new one."""
    old, new = flat(sillytavern_view(before)), flat(sillytavern_view(after))
    differing = changed_members(old, new)
    assert differing
    assert differing <= names_of(name)
    raw = before.source["raw"]
    shown = [each for each in new if each in old and each in raw]
    assert shown == [each for each in old if each in new and each in raw]
    assert changed_members(flat(overlaid(before)), flat(overlaid(after)))
    return sillytavern_view(after)


@given(raw_entries(), FORM, core_changes(CORE))
def test_every_change_of_the_core_is_shown(
    raw: Document, container: Form, change: tuple[str, Any]
) -> None:
    name, value = change
    form = form_of(raw, container)
    before = imported(raw, container)
    after = changed_core(before, name, value)
    assume(getattr(after, name) != getattr(before, name))
    view = check_change(before, after, name)
    if name not in KNOWN:
        assert view["extensions"]["lorewell"][name] == after.model_dump(mode="json")[name]
        return
    core, _, _ = meaning(view, "world_info")
    if name == "conflict_key" and value not in {None, "group:港"}:
        assert view["extensions"]["lorewell"][name] == value
        assert core[name] is None
        return
    assert core == {each: getattr(after, each) for each in core}
    if form == "card":
        assert read_entry(overlaid(after), form="card").core == core


@given(raw_entries(), FORM, block_changes(BLOCK))
def test_every_change_of_the_block_is_shown(
    raw: Document, container: Form, change: tuple[str, Any]
) -> None:
    name, value = change
    before = imported(raw, container)
    after = changed_block(before, name, value)
    old = (before.sillytavern or SillyTavernBlock()).model_dump()
    new = (after.sillytavern or SillyTavernBlock()).model_dump()
    assume(old[name] != new[name])
    # Where the core says otherwise, it wins: the block's word means nothing.
    assume(not (name == "use_probability" and after.probability != 100))
    assume(not (name == "group" and after.conflict_key is not None))
    view = check_change(before, after, name)
    core, block, _ = meaning(view, "world_info")
    assert core == {each: getattr(after, each) for each in core}
    told = DEFAULT_BLOCK | block
    assert told[name] == new[name]


@given(raw_entries())
def test_a_scan_sees_an_untouched_entry_of_a_world_file_as_it_stands_there(raw: Document) -> None:
    assume(form_of(raw, "world_info") == "world_info" and raw.get("uid") is not None)
    entry_id = str(raw["uid"])
    assume(entry_id and entry_id.isprintable())
    assert json.dumps(file_view(imported(raw, "world_info", entry_id))) == json.dumps(raw)


@given(raw_entries(), core_changes([n for n in CORE if n in KNOWN - {"conflict_key", "priority"}]))
def test_a_scan_sees_every_change_under_sillytaverns_own_names(
    raw: Document, change: tuple[str, Any]
) -> None:
    name, value = change
    assume(form_of(raw, "world_info") == "world_info")
    before = imported(raw, "world_info")
    after = changed_core(before, name, value)
    assume(getattr(after, name) != getattr(before, name))
    view = file_view(after) or {}
    own = {field.world: view[field.world] for field in TABLE if field.world in view}
    assert read_entry(own, form="world_info").core[name] == getattr(after, name)


@given(document=entries("灯塔", []), keep=st.booleans())
def test_a_native_entry_is_shown_by_what_differs(document: Document, *, keep: bool) -> None:
    document["source"] = {"format": "native"} if keep else {}
    entry = parse_model(Entry, document)
    view = sillytavern_view(entry)
    assert next(iter(view)) == "uid"
    assert view["uid"] == "灯塔"
    core, block, _ = meaning(view, "world_info")
    said = {name: getattr(entry, name) for name in core if name != "conflict_key"}
    said |= {name: said[name] or None for name in INHERITED}  # false follows the settings
    assert {name: core[name] for name in said} == said
    assert not block
    defaults = {field.world: field.codec.write(field.default) for field in TABLE}
    for name, value in view.items():
        if name not in {"uid", "key", "content", "extensions"}:
            assert value != defaults[name]


@given(raw_entries(), FORM)
def test_reading_never_fails_and_fits_the_model(raw: Document, container: Form) -> None:
    imported(raw, container)
