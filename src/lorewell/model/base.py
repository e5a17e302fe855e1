"""What every model of the contract has in common: its lists and objects are bounded."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from lorewell.model.faults import check_items, check_members, check_names

# The members of pydantic's schemas that hold the schema of a part.
_PARTS: Final = ("schema", "items_schema", "values_schema")
# Models have done their own, and pydantic may give us a schema that we made before.
_DONE: Final = frozenset({"model", "definition-ref"})
_OURS: Final = (check_items, check_members, check_names)


def _bounded(schema: Any) -> Any:  # noqa: ANN401  a schema of pydantic
    """Return the schema of a field with its lists and objects bounded."""
    kind = schema["type"]
    if kind in _DONE or _is_ours(schema):
        return schema
    made = {**schema, **{part: _bounded_part(schema[part]) for part in _PARTS if part in schema}}
    if kind == "union":
        made["choices"] = [_bounded_choice(choice) for choice in schema["choices"]]
    if kind == "list" or "variadic_item_index" in made:
        check = partial(check_items, made.get("max_length"))
        return core_schema.with_info_wrap_validator_function(check, {**made, "fail_fast": True})
    if kind == "dict" and made["values_schema"]["type"] != "any":
        check = partial(check_members, made.get("max_length"))
        return core_schema.no_info_wrap_validator_function(check, made)
    return made


def _bounded_part(part: Any) -> Any:  # noqa: ANN401
    return [_bounded(each) for each in part] if isinstance(part, list) else _bounded(part)


def _bounded_choice(choice: Any) -> Any:  # noqa: ANN401
    made = _bounded(choice)
    # A label, since pydantic would put the name of our function into the paths of faults.
    return (made, f"[{choice['type']}]") if _is_ours(made) else made


def _is_ours(schema: Any) -> bool:  # noqa: ANN401
    function = schema.get("function", {}).get("function")
    return isinstance(function, partial) and function.func in _OURS


def _bounded_model(schema: Any, *, extra: str | None) -> Any:  # noqa: ANN401
    """Return the schema of a model, and of what stands around it, with its fields bounded."""
    if _is_ours(schema):
        return schema
    if schema["type"] != "model-fields":
        return {**schema, "schema": _bounded_model(schema["schema"], extra=extra)}
    fields = {
        name: {**field, "schema": _bounded(field["schema"])}
        for name, field in schema["fields"].items()
    }
    made = {**schema, "fields": fields}
    if extra != "forbid":
        return made
    aliases = (field.get("validation_alias", name) for name, field in fields.items())
    known = frozenset(fields) | frozenset(aliases)
    return core_schema.no_info_before_validator_function(partial(check_names, known), made)


class Bounded(BaseModel):
    """A frozen value; however much it is given, validation takes little more memory than that."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return pydantic's schema with lists and objects that are counted before validation."""
        made: CoreSchema = _bounded_model(handler(source), extra=cls.model_config.get("extra"))
        return made


class Contract(Bounded):
    """A value that refuses unknown fields, at every level. Source: docs/rules/native.md §3."""

    model_config = ConfigDict(extra="forbid")
