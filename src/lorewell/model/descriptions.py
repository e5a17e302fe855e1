"""Descriptions in JSON schemas: the `Attributes` of a docstring describe the properties."""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

_HEAD = re.compile(r" {4}(\w+(?:, \w+)*): (.+)")
_NONE = re.compile(r"\bNone\b")


class Docstring(NamedTuple):
    """A docstring without its `Attributes` section, and the text of each attribute by name."""

    text: str
    attributes: dict[str, str]


def split_docstring(docstring: str) -> Docstring:
    r"""Return the parts of a docstring in Google style.

    >>> split_docstring("A point.\n\nAttributes:\n    x, y: in pixels,\n        from 0.")
    Docstring(text='A point.', attributes={'x': 'in pixels, from 0.', 'y': 'in pixels, from 0.'})
    """
    text: list[str] = []
    attributes: dict[str, list[str]] = {}
    names: list[str] = []
    is_section = False
    for line in inspect.cleandoc(docstring).split("\n"):
        head = _HEAD.fullmatch(line)
        is_section = line == "Attributes:" or (is_section and (not line or line[0] == " "))
        if not is_section:
            text.append(line)
        elif head is not None:
            names = head[1].split(", ")
            attributes |= {name: [head[2]] for name in names}
        elif line.startswith(" "):
            for name in names:
                attributes[name].append(line.strip())
    paragraphs = re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip()
    return Docstring(paragraphs, {name: " ".join(lines) for name, lines in attributes.items()})


def field_descriptions(model: type) -> dict[str, str]:
    """Return the description of each field by the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for docstring in _docstrings(model):
        found |= split_docstring(_NONE.sub("null", docstring)).attributes
    return {name: _sentence(words) for name, words in found.items()}


def _docstrings(model: type) -> list[str]:
    """Return the docstrings of a class and its bases in this package, bases first."""
    kinds = [kind for kind in reversed(model.__mro__) if kind.__module__.startswith("lorewell.")]
    return [own for kind in kinds if (own := vars(kind).get("__doc__"))]


def describe(schema: dict[str, Any], *docstrings: str) -> None:
    """Describe an object's schema and its properties.

    Args:
        schema: is changed. If the type of a property has a description, that one follows.
        docstrings: those of its class and the bases whose attributes it inherits, bases first.

    Raises:
        KeyError: a docstring describes an attribute that is not a property.
    """
    attributes: dict[str, list[str]] = {}
    for docstring in docstrings:
        schema["description"], own = split_docstring(_NONE.sub("null", docstring))
        for name, words in own.items():
            attributes.setdefault(name, []).append(_sentence(words))
    for name, sentences in attributes.items():
        properties = schema["properties"]
        property_schema = properties[name if name in properties else to_camel(name)]
        of_type = property_schema.get("description")
        is_own = of_type is not None and of_type not in sentences  # else inherited from a base
        property_schema["description"] = f"{sentences[-1]} {of_type}" if is_own else sentences[-1]


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def describe_model(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Describe the schema of a model by its docstring and those of its bases.

    For use as pydantic's `json_schema_extra`.
    """
    describe(schema, *_docstrings(model))
