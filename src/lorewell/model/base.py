"""Base classes of the contract: their lists and objects are bounded."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from lorewell.model.descriptions import describe_model, field_descriptions
from lorewell.model.faults import check_items, check_members, check_names

# The members of pydantic's core schemas that hold a nested schema.
_NESTED: Final = ("schema", "items_schema", "values_schema")
# Nested models bound their own fields.
_MODELS: Final = frozenset({"model", "definition-ref"})
_CHECKS: Final = (check_items, check_members, check_names)


def _bounded(schema: Any) -> Any:  # noqa: ANN401  a schema of pydantic
    """Return the core schema of a field with its lists and objects bounded."""
    kind = schema["type"]
    if kind in _MODELS or _is_checked(schema):
        return schema
    nested = {name: _bounded_nested(schema[name]) for name in _NESTED if name in schema}
    bounded = {**schema, **nested}
    if kind == "union":
        bounded["choices"] = [_bounded_choice(choice) for choice in schema["choices"]]
    if kind == "list" or "variadic_item_index" in bounded:
        check = partial(check_items, bounded.get("max_length"))
        return core_schema.with_info_wrap_validator_function(check, {**bounded, "fail_fast": True})
    if kind == "dict" and bounded["values_schema"]["type"] != "any":
        check = partial(check_members, bounded.get("max_length"))
        return core_schema.no_info_wrap_validator_function(check, bounded)
    return bounded


def _bounded_nested(nested: Any) -> Any:  # noqa: ANN401
    return [_bounded(each) for each in nested] if isinstance(nested, list) else _bounded(nested)


def _bounded_choice(choice: Any) -> Any:  # noqa: ANN401
    bounded = _bounded(choice)
    # Without a label pydantic would put the name of our function into the paths of faults.
    return (bounded, f"[{choice['type']}]") if _is_checked(bounded) else bounded


def _is_checked(schema: Any) -> bool:  # noqa: ANN401
    """Return whether the schema has our check already: pydantic may pass in a schema twice."""
    function = schema.get("function", {}).get("function")
    return isinstance(function, partial) and function.func in _CHECKS


def _bounded_model(schema: Any, *, extra: str | None) -> Any:  # noqa: ANN401
    """Return the core schema of a model, with its wrappers, with its fields bounded."""
    if _is_checked(schema):
        return schema
    if schema["type"] != "model-fields":
        return {**schema, "schema": _bounded_model(schema["schema"], extra=extra)}
    fields = {
        name: {**field, "schema": _bounded(field["schema"])}
        for name, field in schema["fields"].items()
    }
    bounded = {**schema, "fields": fields}
    if extra != "forbid":
        return bounded
    aliases = (field.get("validation_alias", name) for name, field in fields.items())
    known = frozenset(fields) | frozenset(aliases)
    return core_schema.no_info_before_validator_function(partial(check_names, known), bounded)


class Bounded(BaseModel):
    """A frozen value. Validation needs little more memory than its input, however large that is."""

    model_config = ConfigDict(frozen=True, json_schema_extra=describe_model)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:  # noqa: ANN401
        """Give each field the description of the docstring, which the JSON schema has too."""
        for name, words in field_descriptions(cls).items():
            if name in cls.model_fields:
                cls.model_fields[name].description = words

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return pydantic's schema with checks that count items before they are validated."""
        bounded: CoreSchema = _bounded_model(handler(source), extra=cls.model_config.get("extra"))
        return bounded


class Contract(Bounded):
    """A value that refuses unknown fields, at every level.

    Source: docs/rules/native.md §3.
    """

    model_config = ConfigDict(extra="forbid")
