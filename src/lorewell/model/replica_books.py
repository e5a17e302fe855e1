"""What the book routes of SillyTavern_replica take; members that we do not know are passed over.

Source: docs/rules/replica.md §1.2, §1.3, §6.4.
"""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, RootModel, model_validator

from lorewell.model.base import Bounded
from lorewell.model.entry import EntryId
from lorewell.model.text import Text, check_json, fault, is_blank

MAX_NAME_CHARS: Final = 100
_OF_PATHS: Final = ("/", "\\", "..")


def check_book_name(name: str) -> str:
    """Return the name of a book, which is data and never a path.

    Raises:
        PydanticCustomError: it is blank, too long, or could be taken for a path.
    """
    if is_blank(name):
        raise fault("", "must not be blank")
    if len(name) > MAX_NAME_CHARS:
        raise fault("", f"must have at most {MAX_NAME_CHARS} characters, has {len(name)}")
    found = next((part for part in _OF_PATHS if part in name), None)
    if found is not None:
        raise fault("", f"must not hold {found}")
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise fault("", "must hold no control characters")
    return name


def _check(value: Any) -> Any:  # noqa: ANN401  any JSON
    check_json(value)
    return value


def _drop_nulls(value: Any) -> Any:  # noqa: ANN401  a pydantic validator sees anything
    if isinstance(value, dict):
        return {name: member for name, member in value.items() if member is not None}
    return value


class _Given(Bounded):
    """An object of a foreign protocol; what is null counts as missing."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _take_null_as_missing(cls, value: Any) -> Any:  # noqa: ANN401  sees anything
        return _drop_nulls(value)


Description = Annotated[Text, Field(max_length=10_000)]


class NewReplicaBook(_Given):
    """A book to be made; its entries are a list in the internal form, or a map by uid."""

    name: Annotated[Text, AfterValidator(check_book_name)]
    description: Description = ""
    entries: Annotated[list[dict[str, Any]] | dict[str, dict[str, Any]], AfterValidator(_check)] = (
        Field(default_factory=list)
    )


class ReplicaBookChange(_Given):
    """What changes in a book beside its entries; None changes nothing."""

    description: Description | None = None


class ReplicaEntryName(_Given):
    """What an entry is called in its book."""

    uid: EntryId


class ReplicaEntryGiven(RootModel[Annotated[dict[str, Any], AfterValidator(_check)]]):
    """An entry of the internal form, or some of its members."""

    model_config = ConfigDict(frozen=True)
