"""What a container holds, as far as it can be told without reading it."""

from __future__ import annotations

from typing import NamedTuple

MAX_PART_NAME_CHARS = 80  # of a name that the file chose; only ever shown


class ContainerPart(NamedTuple):
    """A text chunk of a picture, or a member of an archive.

    Attributes:
        name: as the file says, made storable and cut; never a path to anything.
        kind: the type of the chunk (`tEXt`, `zTXt`, `iTXt`), or `member`.
        size_bytes: of a chunk as it is stored; of a member as the archive says it would unpack.
    """

    name: str
    kind: str
    size_bytes: int
