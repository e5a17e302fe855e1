"""Bodies of SillyTavern_replica's book routes. Unknown members are ignored.

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
_PATH_PARTS: Final = ("/", "\\", "..")


def check_book_name(name: str) -> str:
    """Return the name of a book, which is data and never a path.

    Raises:
        PydanticCustomError: it is blank, too long, or could be taken for a path.
    """
    if is_blank(name):
        raise fault("", "must not be blank")
    if len(name) > MAX_NAME_CHARS:
        raise fault("", f"must have at most {MAX_NAME_CHARS} characters, has {len(name)}")
    found = next((part for part in _PATH_PARTS if part in name), None)
    if found is not None:
        raise fault("", f"must not contain {found}")
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise fault("", "must not contain control characters")
    return name


def _checked(value: Any) -> Any:  # noqa: ANN401  any JSON
    check_json(value)
    return value


class _Body(Bounded):
    """An object of a foreign protocol; members that are null count as missing."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:  # noqa: ANN401  any input
        if isinstance(value, dict):
            return {name: member for name, member in value.items() if member is not None}
        return value


Description = Annotated[Text, Field(max_length=10_000)]


class NewReplicaBook(_Body):
    r"""A new book.

    Attributes:
        name: 1 to 100 characters, without `/`, `\`, `..` and control characters.
        description: for people.
        entries: a list in the internal form, or a map by uid in SillyTavern's form.
    """

    name: Annotated[Text, AfterValidator(check_book_name)]
    description: Description = ""
    entries: Annotated[
        list[dict[str, Any]] | dict[str, dict[str, Any]], AfterValidator(_checked)
    ] = Field(default_factory=list)


class ReplicaBookChange(_Body):
    """A change of a book's own members.

    Attributes:
        description: the new description; null keeps the old one.
    """

    description: Description | None = None


class ReplicaEntryName(_Body):
    """The id of an entry in its book.

    Attributes:
        uid: unique in the book.
    """

    uid: EntryId


class ReplicaEntryGiven(RootModel[Annotated[dict[str, Any], AfterValidator(_checked)]]):
    """An entry in the internal form, or some of its members."""

    model_config = ConfigDict(frozen=True)
