"""The parser of a host's configuration (docs/rules/host.md §2)."""

from __future__ import annotations

from collections.abc import Mapping

from lorewell.errors import Fault, ValidationFailedError
from lorewell.model.parse import parse_model
from lorewell.model.text import pointer
from lorewell.model.worldbook import WorldbookConfig

BLOCK = "worldbook"
# These modes assemble prompts themselves; with both, lore would be placed twice.
_OTHER_MODES = ("preActorDirector", "storyV1", "sumiV1")


def read_config(document: Mapping[str, object]) -> WorldbookConfig | None:
    """Return the block `worldbook` of a host's configuration; None if there is none.

    Other members of the configuration belong to the host.

    Raises:
        ValidationFailedError: the block is invalid, or the configuration turns on a mode that
            excludes it; `faults` hold the pointers.

    >>> read_config({"worldbook": {"tenantId": "demo"}}).token_budget
    2400
    >>> read_config({}) is None
    True
    >>> read_config({"worldbook": {"tenantId": "demo"}, "storyV1": {}})
    Traceback (most recent call last):
    lorewell.errors.ValidationFailedError: /storyV1: can't be used together with worldbook
    """
    block = document.get(BLOCK)
    if block is None:
        return None
    detail = f"can't be used together with {BLOCK}"
    faults = tuple(
        Fault(pointer(mode), detail)
        for mode in _OTHER_MODES
        if document.get(mode) not in (None, False)
    )
    if faults:
        raise ValidationFailedError.at(*faults)
    try:
        return parse_model(WorldbookConfig, block)
    except ValidationFailedError as error:
        raise error.moved(_in_block) from error


def _in_block(fault: Fault) -> Fault:
    return fault._replace(pointer=pointer(BLOCK) + fault.pointer)
