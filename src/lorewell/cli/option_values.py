"""Option values as JSON and as models; their errors name the options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from lorewell.errors import Fault, MalformedJsonError, ValidationFailedError
from lorewell.formats.faults import naming
from lorewell.model.parse import parse_json, parse_model

Model = TypeVar("Model", bound=BaseModel)


def parse_json_option(option: str, text: str) -> object:
    """Return the JSON value of an option.

    Raises:
        MalformedJsonError: the text is not JSON; the sentence names the option.
    """
    try:
        document: object = parse_json(text.encode())
    except MalformedJsonError as error:
        raise naming(error, f"{option} can't be read") from error
    return document


def parse_options(
    model: type[Model], document: Mapping[str, object], options: Mapping[str, str]
) -> Model:
    """Return the options of a command as a model.

    Args:
        model: its class.
        document: the members of the model.
        options: the option that each member comes from, such as `{"mode": "--mode"}`; a member
            that is missing here is named by its JSON pointer.

    Raises:
        ValidationFailedError: a member breaks the schema; each fault names its option.
    """

    def by_option(fault: Fault) -> Fault:
        member = fault.pointer[1:].partition("/")[0]
        return Fault("", fault.detail, options[member]) if member in options else fault

    try:
        return parse_model(model, document)
    except ValidationFailedError as error:
        raise ValidationFailedError.at(*map(by_option, error.faults)) from error
