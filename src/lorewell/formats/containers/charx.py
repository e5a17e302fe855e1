"""Members of a .charx or .byaf: a zip archive that is read, never unpacked to disk.

Only the members that are read are decompressed, in memory and up to a limit; no member is written
or opened by its name. An archive describes each member twice; the central directory counts.

Source: PKWARE's APPNOTE 6.3.10, §4.3 to §4.5 and §5.8; docs/rules/formats.md §3.2 and §0.4.
"""

from __future__ import annotations

import bz2
import lzma
import re
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from lorewell.engine.steps import Steps
from lorewell.errors import ImportInvalidError
from lorewell.formats.containers.inflating import Inflater, inflate
from lorewell.formats.containers.part import MAX_PART_NAME_CHARS, ContainerPart
from lorewell.formats.json_text import storable
from lorewell.formats.notes import ImportNotes, cut

MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")  # of a first member, and of an empty archive
MAX_MEMBERS: Final = 10_000
MAX_CARD_BYTES: Final = 16 * 1024 * 1024  # docs/rules/native.md §11.2, as for a card in an image

_CARD = "card.json"
_MODULE = b"module.risum"
_END = struct.Struct("<4s4H2LH")
_END_MARK = b"PK\x05\x06"
_MAX_END_MARKS = 10_000  # tried from the last one; real archives have one
_WIDE_END = struct.Struct("<4sQ2H2L4Q4s16x")  # with the locator that follows it
_WIDE_END_MARKS = (b"PK\x06\x06", b"PK\x06\x07")
_WIDE = 0xFFFFFFFF  # the number is too large; an extra field has it
_WIDE_FIELD = 1
_EXTRA = struct.Struct("<2H")  # the kind and the size of an extra field
_ENTRY = struct.Struct("<4s6H3L5H2L")
_ENTRY_MARK = b"PK\x01\x02"
_LOCAL = struct.Struct("<4s2H18x2H")
_LOCAL_MARK = b"PK\x03\x04"
_ENCRYPTED = 0x2041  # flags: encrypted, strongly, or with a masked directory
_UTF8_NAME = 0x0800
_STORED, _DEFLATED, _BZIP2, _LZMA = 0, 8, 12, 14

# A name that would leave the folder where an archive is unpacked.
_UNSAFE_NAME = re.compile(rb"[/\\]|[A-Za-z]:|(?:.*[/\\])?\.\.(?:[/\\]|\Z)", re.DOTALL)
_DAMAGED = "The compressed data of {} is damaged."
_TRUNCATED = "The compressed data of {} is truncated."


class Directory(NamedTuple):
    """The central directory of an archive: its span, half-open, in bytes of the file.

    Attributes:
        start: where it starts.
        end: where it ends.
        shift: number of bytes before the archive, which its offsets do not count.
        member_count: as the archive declares.
    """

    start: int
    end: int
    shift: int
    member_count: int


class _Member(NamedTuple):
    """A member as the central directory describes it; all but `name` may be wrong."""

    name: bytes
    flags: int
    method: int
    crc: int
    real_bytes: int
    packed_bytes: int
    offset: int
    extra: bytes

    @property
    def shown(self) -> str:
        """The name for people."""
        encoding = "utf-8" if self.flags & _UTF8_NAME else "cp437"
        return cut(storable(self.name.decode(encoding, "replace")), MAX_PART_NAME_CHARS)


def find_directory(data: bytes) -> Directory | None:
    """Return the central directory of the last archive in a file; None if there is none.

    Other data may stand before and behind the archive. An empty archive does not count.
    """
    at = len(data)
    for _ in range(_MAX_END_MARKS):
        at = data.rfind(_END_MARK, 0, at)
        if at < 0:
            return None
        found = _directory(data, at)
        if found is not None:
            return found
    return None


def _directory(data: bytes, at: int) -> Directory | None:
    """Return the central directory that an end record points to; None if there is none."""
    if at + _END.size > len(data):
        return None
    _, _, _, _, count, size, offset, _ = _END.unpack_from(data, at)
    end = at
    wide_at = at - _WIDE_END.size
    if wide_at >= 0:
        first, *_, wide_count, wide_size, wide_offset, second = _WIDE_END.unpack_from(data, wide_at)
        if (first, second) == _WIDE_END_MARKS:
            end, count, size, offset = wide_at, wide_count, wide_size, wide_offset
    for start in (end - size, offset):  # usually right before the end record
        if offset <= start < end and data[start : start + len(_ENTRY_MARK)] == _ENTRY_MARK:
            return Directory(start, min(start + size, end), start - offset, count)
    return None


class Archive(NamedTuple):
    """An archive in a file.

    Attributes:
        data: the file.
        members: as the central directory lists them.
        shift: number of bytes before the archive, which its offsets do not count.
    """

    data: bytes
    members: Sequence[_Member]
    shift: int

    @property
    def names(self) -> list[str]:
        """The names of the members, in the order of the directory."""
        return [member.shown for member in self.members]

    def read(self, name: str, notes: ImportNotes) -> bytes | None:
        """Return a member, the last of its name; None if there is none.

        Raises:
            ImportInvalidError: it is truncated, damaged, encrypted or larger than
                `MAX_CARD_BYTES`.
        """
        wanted = name.encode()
        found = next((each for each in reversed(self.members) if each.name == wanted), None)
        return None if found is None else _content(self.data, _widened(found), self.shift, notes)


def read_card(data: bytes, notes: ImportNotes) -> bytes:
    """Return `card.json` at the root of an archive.

    Args:
        data: a file that begins with one of `MAGICS`, or has an archive behind other data.
        notes: collects oddities, and a warning for a RisuAI module, which is not read.

    Raises:
        ImportInvalidError: the archive is truncated, damaged or encrypted, has more than
            `MAX_MEMBERS` members, no `card.json`, or one of more than `MAX_CARD_BYTES`.
    """
    return card_of(open_archive(data, notes), notes)


def card_of(archive: Archive, notes: ImportNotes) -> bytes:
    """Return `card.json` at the root of an archive.

    Raises:
        ImportInvalidError: there is none, or as `Archive.read`.
    """
    card = archive.read(_CARD, notes)
    if card is None:
        raise ImportInvalidError(
            "This zip archive is neither a charx (card.json is missing at its root) nor a byaf of"
            " Backyard (manifest.json is missing); export the character or its lorebook as JSON."
        )
    return card


def open_archive(data: bytes, notes: ImportNotes) -> Archive:
    """Return the last archive in a file.

    Args:
        data: a file that begins with one of `MAGICS`, or has an archive behind other data.
        notes: collects oddities, and a warning for a RisuAI module, which is not read.

    Raises:
        ImportInvalidError: the archive is empty, truncated or damaged, or has more than
            `MAX_MEMBERS` members.
    """
    if data.startswith(_END_MARK):
        raise ImportInvalidError("The zip archive is empty: card.json is missing.")
    directory = find_directory(data)
    if directory is None:
        raise ImportInvalidError(
            "The zip archive is truncated or damaged: its end record is missing."
        )
    if directory.member_count > MAX_MEMBERS:
        raise ImportInvalidError(
            f"The zip archive has {directory.member_count} members; the limit is {MAX_MEMBERS}.",
            limit_members=MAX_MEMBERS,
        )
    members = _members(data, directory, notes)
    _note_names(members, notes)
    return Archive(data, members, directory.shift)


def list_members(data: bytes) -> list[ContainerPart]:
    """Return the members of the last archive in a file, in the order of its central directory.

    The list is empty if there is no archive, its directory is damaged, or it has more than
    `MAX_MEMBERS` members.
    """
    directory = find_directory(data)
    if directory is None or directory.member_count > MAX_MEMBERS:
        return []
    try:
        members = _members(data, directory, ImportNotes())
    except ImportInvalidError:
        return []
    return [ContainerPart(each.shown, "member", _widened(each).real_bytes) for each in members]


def _members(data: bytes, directory: Directory, notes: ImportNotes) -> list[_Member]:
    """Return the members in the order of the directory, at most as many as it declares."""
    members: list[_Member] = []
    at = directory.start
    while len(members) < directory.member_count:
        start = at + _ENTRY.size
        if start > directory.end or data[at : at + 4] != _ENTRY_MARK:
            raise ImportInvalidError(
                f"The zip archive is damaged: expected an entry of its directory at byte {at}."
            )
        (_, _, _, flags, method, _, _, crc, packed_bytes, real_bytes, *sizes, _, _, _, offset) = (
            _ENTRY.unpack_from(data, at)
        )
        extra_at, comment_at = start + sizes[0], start + sizes[0] + sizes[1]
        at = comment_at + sizes[2]
        name, extra = data[start:extra_at], data[extra_at:comment_at]
        notes.steps.spend("members")
        members.append(_Member(name, flags, method, crc, real_bytes, packed_bytes, offset, extra))
    if at != directory.end:
        message = f"the zip archive declares {len(members)} members, but its directory is longer"
        notes.add("charx_miscounted", message)
    return members


def _widened(member: _Member) -> _Member:
    """Return a member with sizes and offset from its extra field, if they are marked as too large.

    Source: APPNOTE §4.5.3: the field has only the marked numbers, in this order.
    """
    names = ("real_bytes", "packed_bytes", "offset")
    marked = [name for name in names if getattr(member, name) == _WIDE]
    extra, at = member.extra, 0
    while marked and at + _EXTRA.size <= len(extra):
        kind, size = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        field = extra[at : at + size]
        if kind == _WIDE_FIELD:
            count = min(len(marked), len(field) // 8)
            numbers = struct.unpack_from(f"<{count}Q", field)
            return member._replace(**dict(zip(marked, numbers, strict=False)))
        at += size
    return member


def _note_names(members: Sequence[_Member], notes: ImportNotes) -> None:
    """Note repeated and unsafe names; names are never used."""
    counts = Counter(member.name for member in members)
    repeated = [member for member in members if counts[member.name] > 1]
    if repeated:
        notes.add(
            "charx_repeated",
            f"{len(repeated)} members of the archive have repeated names, such as"
            f" {repeated[0].shown}; the last member of a name was read",
        )
    unsafe = [member for member in members if _UNSAFE_NAME.match(member.name)]
    if unsafe:
        notes.add(
            "charx_unsafe_names",
            f"the names of {len(unsafe)} members lead out of the archive's folder, such as"
            f" {unsafe[0].shown}; nothing was written",
        )
    if _MODULE in counts:
        notes.add(
            "risu_module",
            "the archive also holds a RisuAI module, whose lorebook was not read; RisuAI can export"
            " it as JSON",
        )


def _content(data: bytes, card: _Member, shift: int, notes: ImportNotes) -> bytes:
    """Return the decompressed card; the limit holds whatever size the archive declares."""
    packed = _packed(data, card, card.offset + shift)
    if card.real_bytes > MAX_CARD_BYTES:
        raise _too_large(card)
    content, is_whole = _inflated(packed, card, notes.steps)
    if len(content) > MAX_CARD_BYTES:
        raise _too_large(card)
    if not is_whole:
        raise ImportInvalidError(_TRUNCATED.format(card.shown))
    if (len(content), zlib.crc32(content)) != (card.real_bytes, card.crc):
        notes.add("charx_crc", f"the size or the checksum of {card.shown} is wrong")
    return content


def _too_large(card: _Member) -> ImportInvalidError:
    return ImportInvalidError(
        f"{card.shown} is larger than the limit of {MAX_CARD_BYTES // 1024**2} MiB.",
        limit_bytes=MAX_CARD_BYTES,
    )


def _packed(data: bytes, card: _Member, at: int) -> bytes:
    """Return the compressed bytes of the card, behind their local header."""
    name_at = at + _LOCAL.size
    mark, _, flags, name_bytes, extra_bytes = _LOCAL.unpack(
        data[at:name_at].ljust(_LOCAL.size, b"\0")
    )
    start = name_at + name_bytes
    if mark != _LOCAL_MARK or data[name_at:start] != card.name:
        raise ImportInvalidError(f"The zip archive is damaged: {card.shown} is not at its offset.")
    if (card.flags | flags) & _ENCRYPTED:
        raise ImportInvalidError(
            f"{card.shown} is encrypted; encrypted archives are not supported."
        )
    start += extra_bytes
    packed = data[start : start + card.packed_bytes]
    if len(packed) < card.packed_bytes:
        raise ImportInvalidError(_TRUNCATED.format(card.shown))
    return packed


def _inflated(packed: bytes, card: _Member, steps: Steps) -> tuple[bytes, bool]:
    """Return the content, at most one byte more than the limit, and whether it is complete."""
    if card.method == _STORED:
        return packed, True
    try:
        inflater, rest = _inflater(packed, card)
        content = inflate(inflater, rest, limit_bytes=MAX_CARD_BYTES, steps=steps)
    except (zlib.error, lzma.LZMAError, OSError) as error:  # bz2 raises OSError
        raise ImportInvalidError(_DAMAGED.format(card.shown)) from error
    # LZMA without an end mark is complete when it has the declared size.
    has_size = card.method == _LZMA and len(content) == card.real_bytes
    return content, inflater.eof or has_size


def _inflater(packed: bytes, card: _Member) -> tuple[Inflater, bytes]:
    """Return the decompressor, and the bytes without their properties."""
    if card.method == _DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS), packed
    if card.method == _BZIP2:
        return bz2.BZ2Decompressor(), packed
    if card.method == _LZMA:
        return _lzma_inflater(packed, card)
    raise ImportInvalidError(f"{card.shown} has the unsupported compression method {card.method}.")


def _lzma_inflater(packed: bytes, card: _Member) -> tuple[Inflater, bytes]:
    """Return a decompressor of LZMA, and the data without the properties before them."""
    version_and_size, properties, rest = packed[:4], packed[4:9], packed[9:]
    bits, dictionary_bytes = properties[:1], int.from_bytes(properties[1:], "little")
    if version_and_size[2:] != b"\x05\0" or len(properties) < 5 or bits[0] >= 9 * 5 * 5:  # noqa: PLR2004
        raise ImportInvalidError(_DAMAGED.format(card.shown))
    filters = {
        "id": lzma.FILTER_LZMA1,
        "lc": bits[0] % 9,
        "lp": bits[0] // 9 % 5,
        "pb": bits[0] // 45,
        # The output is bounded, so a larger dictionary is never used.
        "dict_size": min(max(dictionary_bytes, 4096), MAX_CARD_BYTES + 1),
    }
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[filters]), rest
