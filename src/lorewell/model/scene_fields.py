"""Which field of a policy's request each member of a scene stands for.

The table of docs/api.md, "The scene", is this one; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from pydantic import BaseModel

from lorewell.model.scene import (
    Scene,
    SceneMember,
    SceneNote,
    members_of,
    merge_scenes,
    without_members,
)
from lorewell.model.text import fault, pointer

if TYPE_CHECKING:  # it needs the requests, which need this module
    from lorewell.model.binding import Policy

Request = TypeVar("Request", bound=BaseModel)

_NATIVE_CHAR, _NATIVE_USER = ("template_vars.char",), ("template_vars.user",)
_TABLE: Final = ("dynamicTableData.currentValues",)

FIELDS: Final[Mapping[str, Mapping[Policy, tuple[str, ...]]]] = {
    "state": {"native": ("state",), "replica": _TABLE},
    "tables": {"native": ("state",), "replica": _TABLE},
    "names.char": {"native": _NATIVE_CHAR, "sillytavern": ("macros.char",), "replica": ("char",)},
    "names.user": {"native": _NATIVE_USER, "sillytavern": ("macros.user",), "replica": ("user",)},
    "names.group": {},
    "character.name": {
        "native": _NATIVE_CHAR,
        "sillytavern": ("macros.char",),
        "replica": ("char",),
    },
    "character.file": {"sillytavern": ("character.avatar",)},
    "character.tags": {"sillytavern": ("character.tags",)},
    "character.description": {
        "sillytavern": ("macros.description", "scan_texts.character_description")
    },
    "character.personality": {
        "sillytavern": ("macros.personality", "scan_texts.character_personality")
    },
    "character.scenario": {"sillytavern": ("macros.scenario", "scan_texts.scenario")},
    "character.depth_prompt": {
        "sillytavern": ("macros.depth_prompt", "scan_texts.character_depth_prompt")
    },
    "persona": {"sillytavern": ("macros.persona", "scan_texts.persona_description")},
    "note": {"sillytavern": ("authors_note.value",)},
    "trigger": {"sillytavern": ("trigger",)},
    "chat_length": {"sillytavern": ("chat_length",)},
    "seed": {"native": ("seed",), "sillytavern": ("seed",), "replica": ("seed",)},
    "time": {"sillytavern": ("macros.time",)},
    "timezone": {"sillytavern": ("macros.timezone",)},
    "group_members": {"sillytavern": ("macros.group_members",)},
    "messages": {"sillytavern": ("macros.messages",)},
    "chat_id": {"sillytavern": ("macros.chat_id",)},
    "variables": {"sillytavern": ("variables",)},
    "host": {"sillytavern": ("macros.host",)},
    "audience": {"native": ("audience",)},
    "tokenizer": {},
    "enabled": {},
}
"""By member of the scene: the fields of each policy's request, as JSON names joined by dots."""

# Members without a field that have an effect: those of every interface, and those of the
# interfaces that put a prompt together.
_EVERYWHERE: Final = frozenset({"enabled"})
PROMPT_MEMBERS: Final = frozenset({"note", "tokenizer", "enabled"})

OFF: Final = Scene(enabled=False)
"""The scene of a turn without lore."""


def check_scene(request: BaseModel, scene: Scene | None, policy: Policy) -> None:
    """Raise a fault, at the member of the scene, for a value that its own field gives too."""
    if scene is None:
        return
    for member in members_of(scene):
        for field in FIELDS[member.name].get(policy, ()):
            if _is_given(request, field.split(".")):
                at = pointer("scene", *member.name.split("."))
                raise fault(at, f"is also given in {field}")


def unused_members(scene: Scene | None, policy: Policy) -> tuple[str, ...]:
    """Return the members that a scene gives and a policy cannot use."""
    if scene is None:
        return ()
    names = (member.name for member in members_of(scene))
    return tuple(n for n in names if n not in _EVERYWHERE and not FIELDS[n].get(policy))


def with_scene(request: Request, scene: Scene | None, policy: Policy) -> Request:
    """Return a request of a policy with the values of its scene in their own fields.

    Its scene is then None, or `OFF` if it adds no lore.
    """
    if scene is None:
        return request
    moved = _with_values(request, _values_of(scene, policy))
    return moved.model_copy(update={"scene": OFF if scene.enabled is False else None})


def for_request(
    document: Mapping[str, Any], scene: Scene | None, policy: Policy
) -> dict[str, object]:
    """Return the members of a request that an interface makes, with the scene on top.

    Members that the scene gives are left out, so that the scene wins. Members of the scene that
    only the interface uses are left out of the scene.

    Args:
        document: the members of the request, by their JSON names.
        scene: the scene of the turn.
        policy: the policy of the request.
    """
    if scene is None:
        return {**document}
    used = {name for name in PROMPT_MEMBERS if not FIELDS[name].get(policy)}
    own = scene.model_copy(update=dict.fromkeys(used))
    return {**without_given(document, scene, policy), "scene": own}


def with_default(request: Request, default: Scene | None, policy: Policy) -> Request:
    """Return a request with the members of a default scene that it does not give itself.

    A request that has no scene gets their values in its own fields.
    """
    default = usable(default, policy)
    if default is None:
        return request
    fields = {each.name: FIELDS[each.name].get(policy, ()) for each in members_of(default)}
    given = {
        name
        for name, own in fields.items()
        if any(_is_given(request, field.split(".")) for field in own)
    }
    rest = without_members(default, given)
    if "scene" not in type(request).model_fields:
        return _with_values(request, _values_of(rest, policy))
    said: Scene | None = getattr(request, "scene", None)
    return request.model_copy(update={"scene": merge_scenes(said, rest)})


def usable(scene: Scene | None, policy: Policy, *, in_prompt: bool = False) -> Scene | None:
    """Return a scene without the members that a policy cannot use.

    Args:
        scene: the scene.
        policy: the policy.
        in_prompt: whether the interface puts a prompt together, and so uses members of its own.
    """
    if scene is None:
        return None
    kept = PROMPT_MEMBERS if in_prompt else frozenset()
    return without_members(scene, set(unused_members(scene, policy)) - kept)


def without_given(
    document: Mapping[str, Any], scene: Scene | None, policy: Policy
) -> dict[str, object]:
    """Return the members of a request without those that its scene gives."""
    made: dict[str, object] = {**document}
    for field in {} if scene is None else _values_of(scene, policy):
        head, _, rest = field.partition(".")
        nested = made.get(head)
        if not rest:
            made.pop(head, None)
        elif isinstance(nested, Mapping):
            made[head] = {name: value for name, value in nested.items() if name != rest}
    return made


def table_of(state: Mapping[str, object]) -> dict[str, object]:
    """Return a story's state as the flat table that conditions of the policy `replica` read.

    Members of nested objects get their path as name, so that `tb.hero.力量` means the same as under
    the policy `native`. Lists stay values. A top-level member with the same name as a path wins.

    >>> table_of({"hero": {"力量": 15, "bag": ["灯"]}, "态度": "友好"})
    {'hero.力量': 15, 'hero.bag': ['灯'], '态度': '友好'}
    """
    table: dict[str, object] = {}
    for name, value in _leaves(state, ""):
        table.setdefault(name, value)
    return table | {name: each for name, each in state.items() if not isinstance(each, dict)}


def _leaves(state: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in state.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _values_of(scene: Scene, policy: Policy) -> dict[str, object]:
    """Return the values of a scene by the fields of a policy's request."""
    return {
        field: _value_of(scene, member, policy)
        for member in members_of(scene)
        for field in FIELDS[member.name].get(policy, ())
    }


def _value_of(scene: Scene, member: SceneMember, policy: Policy) -> object:
    match member.name, member.value:
        case "state" | "tables", _:
            values = scene.values or {}
            return table_of(values) if policy == "replica" else values
        case "names.char" | "character.name", _:
            return scene.char
        case "note", SceneNote(text=text):
            return text
        case _, value:
            return value


def _is_given(value: object, steps: Sequence[str]) -> bool:
    """Return whether a request gives a value for a field, and not null."""
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, BaseModel):
            name = _attribute(type(value), step)
            value = getattr(value, name) if name in value.model_fields_set else None
    return value is not None


def _with_values(model: Request, values: Mapping[str, object]) -> Request:
    """Return a model with other values at fields, which may be nested."""
    changes: dict[str, Any] = {}
    nested: dict[str, dict[str, object]] = {}
    for field, value in values.items():
        head, _, rest = field.partition(".")
        name = _attribute(type(model), head)
        if rest:
            nested.setdefault(name, {})[rest] = value
        else:
            changes[name] = value
    for name, inner in nested.items():
        old = getattr(model, name)
        if isinstance(old, Mapping):
            changes[name] = {**old, **inner}
        else:
            changes[name] = _with_values(
                _model_at(type(model), name) if old is None else old, inner
            )
    return model.model_copy(update=changes)


def _attribute(model: type[BaseModel], json_name: str) -> str:
    """Return the name of the field that has a name in JSON."""
    fields = model.model_fields
    if json_name in fields:
        return json_name
    return next(name for name, field in fields.items() if field.alias == json_name)


def _model_at(model: type[BaseModel], name: str) -> BaseModel:
    """Return an empty value for a field whose type is a model or null."""
    kinds = get_args(model.model_fields[name].annotation)
    kind: type[BaseModel] = next(each for each in kinds if issubclass(each, BaseModel))
    return kind.model_construct()
