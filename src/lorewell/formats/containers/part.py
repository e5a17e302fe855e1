"""The parts of a container, listed without reading them."""

from __future__ import annotations

from typing import NamedTuple

MAX_PART_NAME_CHARS = 80  # names come from the file and are only ever shown


class ContainerPart(NamedTuple):
    """A text chunk of an image, or a member of an archive.

    Attributes:
        name: as in the file, made storable and cut; never used as a path.
        kind: the type of the chunk (`tEXt`, `zTXt`, `iTXt`), or `member`.
        size_bytes: stored size of a chunk; unpacked size of a member, as the archive declares it.
    """

    name: str
    kind: str
    size_bytes: int
