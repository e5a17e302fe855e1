"""Reads a book as each policy does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lorewell.engine.conditions import Expression, Flaw, parse_expression, words_of
from lorewell.engine.conditions.keys import read_key_expression
from lorewell.engine.matching.keys import fold_key, split_regex, trim
from lorewell.engine.matching.words import stands_alone
from lorewell.engine.replica.triggers import read_triggers
from lorewell.engine.replica.values import as_labels, as_number, as_uid
from lorewell.engine.sillytavern import keys as theirs
from lorewell.engine.sillytavern.entry.fields import group_of
from lorewell.engine.sillytavern.javascript import trim as js_trim
from lorewell.engine.sillytavern.macros import may_hold_macro
from lorewell.engine.sillytavern.scan_entry import EntryPosition, ScanEntry
from lorewell.engine.sillytavern.world import compile_stored
from lorewell.engine.steps import NO_LIMIT, Steps
from lorewell.engine.template import EXPRESSION
from lorewell.engine.tokens import TokenCounter
from lorewell.insight.lint.judged import (
    CERTAIN,
    JudgedBook,
    JudgedEntry,
    JudgedKey,
    LintSettings,
)
from lorewell.jsregex import Pattern
from lorewell.model import BookCreate, Entry
from lorewell.model.entry import Logic
from lorewell.model.sillytavern import SillyTavernBlock
from lorewell.retrieval.normal import normalise

_RUN_KINDS: Final = frozenset({"lore", "character", "rule"})
_LOGICS: Final[Mapping[int | None, Logic]] = {
    None: "and_any",
    0: "and_any",
    1: "not_all",
    2: "not_any",
    3: "and_all",
}
_STEPS_PER_ENTRY: Final = 20
# Rules of SillyTavern that another policy ignores; weights count only within a group.
_THEIR_RULES: Final = (
    *("sticky", "cooldown", "delay", "delay_until_recursion", "ignore_budget", "group_override"),
    *("vectorized", "triggers", "character_filter", "match_persona_description"),
    *("match_character_description", "match_character_personality", "match_scenario"),
    *("match_character_depth_prompt", "match_creator_notes"),
)


def judge(
    book: BookCreate, settings: LintSettings, counter: TokenCounter, steps: Steps | None = None
) -> JudgedBook:
    """Return the book as its policy reads it."""
    steps = Steps(NO_LIMIT) if steps is None else steps
    is_theirs = settings.policy == "sillytavern"
    match settings.policy:
        case "sillytavern":
            entries = list(_of_sillytavern(book, settings, steps))
        case "native":
            entries = [_native(index, spec, steps) for index, spec in _enabled(book)]
        case "replica":
            entries = [_replica(index, spec, steps) for index, spec in _enabled(book)]
    return JudgedBook(
        book=book,
        settings=settings,
        entries=entries,
        fold=str.lower if is_theirs else _folded,
        compose=str if is_theirs else _composed,
        borders=theirs.stands_alone if is_theirs else stands_alone,
        steps=steps,
        counter=counter,
    )


def _enabled(book: BookCreate) -> Iterator[tuple[int, Entry]]:
    return ((index, spec) for index, spec in enumerate(book.entries) if spec.enabled)


def _composed(text: str) -> str:
    return normalise("NFC", text)


def _folded(text: str) -> str:
    return _composed(text).casefold()


def _own_keys(spec: Entry, field: str, keys: Sequence[str], *, regexes: bool) -> list[JudgedKey]:
    """Return keys under our rules; without `regexes` all are plain."""
    found = []
    for index, key in enumerate(keys):
        trimmed = trim(key)
        regex = split_regex(trimmed) if regexes else None
        wanted = "" if regex else fold_key(trimmed, case_sensitive=bool(spec.case_sensitive))
        found.append(
            JudgedKey(
                text=key,
                field=field,
                index=index,
                regex=Pattern(*regex) if regex else None,
                wanted=wanted,
                alone=bool(spec.match_whole_words),
                has_macro=EXPRESSION.search(key) is not None,
            )
        )
    return found


def _parsed(spec: Entry) -> tuple[tuple[int, Expression], ...]:
    texts = ((at, parse_expression(text)) for at, text in enumerate(spec.conditions_text))
    return tuple((at, found) for at, found in texts if not isinstance(found, Flaw))


def _words(spec: Entry) -> tuple[str, ...]:
    if spec.key_expression is None:
        return ()
    parsed = read_key_expression(spec.key_expression)
    if isinstance(parsed, Flaw):
        return ()
    return tuple(word for word, wanted in words_of(parsed) if wanted)


def _native(index: int, spec: Entry, steps: Steps) -> JudgedEntry:
    steps.spend("lint", _STEPS_PER_ENTRY + len(spec.keys) + len(spec.secondary_keys))
    secondary = spec.secondary_keys if spec.selective else ()
    conditional = bool(spec.conditions or spec.conditions_text)
    block = spec.sillytavern
    return JudgedEntry(
        index=index,
        spec=spec,
        always=spec.constant or spec.required,
        keys=tuple(_own_keys(spec, "keys", spec.keys, regexes=True)),
        secondary=tuple(_own_keys(spec, "secondary_keys", secondary, regexes=True)),
        logic=spec.logic,
        words=_words(spec),
        other_trigger=spec.key_expression is not None,
        case=bool(spec.case_sensitive),
        whole_words=bool(spec.match_whole_words),
        probability=spec.probability,
        scan_depth=spec.scan_depth,
        fed=not spec.exclude_recursion,
        feeds=not spec.prevent_recursion,
        groups=(spec.conflict_key,) if spec.conflict_key else (),
        limited=conditional
        or spec.probability < CERTAIN
        or spec.audience != Entry.model_fields["audience"].default,
        blocked=not spec.audience or bool(spec.runtime_requirements) or spec.kind not in _RUN_KINDS,
        outlet=spec.outlet_name,
        ignored=_ignored_of(block, in_group=bool(spec.conflict_key)),
        requires=spec.requires,
        conditions=spec.conditions,
        texts=_parsed(spec),
    )


def _ignored_of(block: SillyTavernBlock | None, *, in_group: bool) -> tuple[str, ...]:
    if block is None:
        return ()
    names = [
        name
        for name in _THEIR_RULES
        if getattr(block, name) and (in_group or name != "group_override")
    ]
    default = SillyTavernBlock.model_fields["group_weight"].default
    if in_group and block.group_weight != default:
        names.append("group_weight")
    return tuple(names)


def _replica(index: int, spec: Entry, steps: Steps) -> JudgedEntry:
    steps.spend("lint", _STEPS_PER_ENTRY + len(spec.keys) + len(spec.secondary_keys))
    block = spec.replica or {}
    config = block.get("trigger_config")
    triggers = read_triggers(config) if isinstance(config, Mapping) else None
    others = triggers is not None and (
        triggers.rag is not None or triggers.logic is not None or bool(triggers.conditions)
    )
    conditional = bool(spec.conditions or spec.conditions_text)
    own = block.get("activationType") in ("rag", "logic")
    weight = as_number(block.get("groupWeight"))
    return JudgedEntry(
        index=index,
        spec=spec,
        always=spec.constant or (triggers is not None and triggers.constant),
        keys=tuple(_own_keys(spec, "keys", spec.keys, regexes=False)),
        secondary=tuple(
            _own_keys(
                spec,
                "secondary_keys",
                spec.secondary_keys if spec.selective else (),
                regexes=False,
            )
        ),
        logic=spec.logic,
        other_trigger=others or own or conditional,
        case=bool(spec.case_sensitive),
        whole_words=bool(spec.match_whole_words),
        probability=spec.probability,
        groups=as_labels(block.get("group")),
        weight=100 if weight is None else weight,
        requires=_uids(block.get("requires")),
        limited=conditional or spec.probability < CERTAIN,
        conditions=spec.conditions,
        texts=_parsed(spec),
    )


def _uids(value: object) -> tuple[str, ...]:
    named = (as_uid(each) for each in (value if isinstance(value, list) else [value]))
    return tuple(dict.fromkeys(uid for uid in named if uid is not None))


def _of_sillytavern(
    book: BookCreate, settings: LintSettings, steps: Steps
) -> Iterator[JudgedEntry]:
    world = compile_stored(book, steps=steps)
    for index, (scan, spec) in enumerate(zip(world.entries, book.entries, strict=True)):
        if not scan.disabled:
            yield _scanned(index, spec, scan, settings, world.ignored_rules.get(scan.id, ()))


def _scanned(
    index: int, spec: Entry, scan: ScanEntry, settings: LintSettings, ignored: tuple[str, ...]
) -> JudgedEntry:
    case = settings.case if scan.case is None else scan.case
    whole = settings.whole_words if scan.whole is None else scan.whole
    secondary = scan.secondary if scan.uses_secondary else ()
    limits = scan.limits
    chance = CERTAIN if scan.probability is None else scan.probability
    timed = bool(scan.sticky or scan.cooldown or scan.delay or scan.level)
    return JudgedEntry(
        index=index,
        spec=spec,
        always=scan.constant or scan.activates,
        keys=_their_keys("keys", scan.keys, spec.keys, case=case, whole=whole),
        secondary=_their_keys(
            "secondary_keys", secondary, spec.secondary_keys, case=case, whole=whole
        ),
        logic=_LOGICS.get(scan.logic),
        other_trigger=bool(spec.sillytavern and spec.sillytavern.vectorized),
        case=case,
        whole_words=whole,
        probability=chance if chance == chance else 0,  # noqa: PLR0124  NaN always fails
        scan_depth=None if scan.scan_depth is None else int(max(scan.scan_depth, 0)),
        fed=not scan.excludes_recursion,
        feeds=not scan.prevents_recursion,
        level=scan.level,
        groups=scan.groups,
        limited=limits is not None or timed or chance < CERTAIN,
        blocked=scan.suppressed,
        outlet=scan.outlet if scan.position == EntryPosition.OUTLET else None,
        has_place=scan.position is not None,
        ignored=ignored,
        sticky=scan.sticky or 0,
        cooldown=scan.cooldown or 0,
        delay=scan.delay or 0,
        overrides=scan.overrides,
        weight=scan.weight,
    )


def _their_keys(
    field: str,
    keys: Sequence[theirs.SillyTavernKey],
    shown: Sequence[str],
    *,
    case: bool,
    whole: bool,
) -> tuple[JudgedKey, ...]:
    alike = [key.text for key in keys] == list(shown)
    found = []
    for index, key in enumerate(keys):
        has_macro = may_hold_macro(key.text)
        prepared = None if has_macro else theirs.classify(js_trim(key.text))
        is_regex = isinstance(prepared, theirs.JsRegexKey)
        plain = prepared if isinstance(prepared, theirs.PlainKey) else None
        wanted = "" if plain is None else plain.exact if case else plain.folded
        found.append(
            JudgedKey(
                text=key.text,
                field=field,
                index=index if alike else None,
                regex=prepared.pattern if isinstance(prepared, theirs.JsRegexKey) else None,
                wanted="" if is_regex else wanted,
                alone=whole and plain is not None and plain.single,
                has_macro=has_macro,
            )
        )
    return tuple(found)


def group_label(name: str) -> str:
    """Return the name of a group without the prefix of imported ones."""
    return group_of(name) or name
