"""The option `--set NAME=VALUE`: settings of a prompt, by the names of its policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lorewell.cli.library import BookLibrary
from lorewell.cli.option_values import parse_options
from lorewell.errors import Fault, MalformedJsonError, ValidationFailedError
from lorewell.model import BindingsPut, BookCreate, Policy
from lorewell.model.binding import original_policy
from lorewell.model.parse import parse_json, parse_model
from lorewell.model.prompt_settings import PromptSettings

_OPTION: Final = "--set"
_OF_ANY_POLICY: Final = ("scene", "auto_index")


def find_policy(library: BookLibrary, request: BindingsPut) -> Policy:
    """Return the policy that a prompt with these bindings runs under.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a book or revision is missing.
    """
    if request.policy != "auto":
        return request.policy
    enabled = [binding for binding in request.bindings if binding.enabled]
    for binding in enabled:
        revision = library.get_book(binding.book_id, revision=binding.revision).revision
        fields = {name: getattr(revision, name) for name in BookCreate.model_fields}
        if original_policy(parse_model(BookCreate, fields)) == "sillytavern":
            return "sillytavern"
    return "native"


def read_settings(pairs: Sequence[str], policy: Policy) -> PromptSettings:
    """Return the settings that `NAME=VALUE` pairs set under a policy.

    Raises:
        ValidationFailedError: a name is unknown, or a value does not fit; the valid names are
            listed.
    """
    kind = PromptSettings.model_fields[policy].annotation
    names = getattr(kind, "model_fields", {})
    members: dict[str, object] = {}
    own: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise _wrong(f"must have the form NAME=VALUE, not {pair!r}")
        if name not in names and name not in _OF_ANY_POLICY:
            valid = ", ".join([*names, *_OF_ANY_POLICY])
            raise _wrong(f"the policy {policy} has no setting {name!r}; choose from {valid}")
        (own if name in names else members)[name] = _value_of(value)
    if own:
        members[policy] = own
    return parse_options(PromptSettings, members, dict.fromkeys([policy, *_OF_ANY_POLICY], _OPTION))


def _value_of(text: str) -> object:
    """Return a JSON value; any other text is a text."""
    try:
        value: object = parse_json(text.encode(errors="surrogatepass"))
    except MalformedJsonError:
        return text
    return value


def _wrong(detail: str) -> ValidationFailedError:
    return ValidationFailedError.at(Fault("", detail, _OPTION))
