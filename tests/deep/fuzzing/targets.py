"""What is fuzzed: every container, JSON and YAML, and the reader of every kind of document."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from deep.fuzzing import containers as c, plain
from deep.fuzzing.documents import DOCUMENTS, NATIVE_DOCUMENTS, as_bytes
from deep.fuzzing.invariants import Check, check, check_opening
from deep.fuzzing.json_mutator import Mutator, OnBytes, mutate_json
from lorewell.formats.containers import charx, jpeg, png, webp
from lorewell.formats.detect import FileKind, find_kind
from lorewell.formats.native import FORMAT as NATIVE, is_native

MAX_BYTES: Final = 4 * 1024  # of an input: larger ones are slow and show nothing else
_ROOT: Final = Path(__file__).resolve().parents[3]
# Other people's files, which are not part of this repository, are further seeds where they are.
_CORPUS: Final = Path(os.environ.get("LOREWELL_CORPUS", _ROOT.parent / "shared" / "corpus"))
_TRIES: Final = 3  # to stay with a kind

_MAGICS: Final = (
    (png.SIGNATURE, "png"),
    (jpeg.MAGIC, "jpeg"),
    (webp.MAGIC, "webp"),
    *((magic, "charx") for magic in charx.MAGICS),
    (c.RISUM_MAGIC, "risum"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Something to fuzz.

    Attributes:
        seeds: makes the files to begin with.
        mutate: makes the next file of one.
        check: reads a file, asserts what holds for any, and returns its format.
    """

    seeds: Callable[[], Iterable[bytes]]
    mutate: Mutator
    check: Check = check


def _document(data: bytes) -> object:
    """Return the document in a file, None where there is none."""
    try:
        return json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return None


def _keeping(fits: Callable[[object], bool]) -> Mutator:
    """Return a mutator that mostly stays with documents that fit."""

    def mutate(data: bytes, max_size: int, chance: Random, on_bytes: OnBytes) -> bytes:
        for _ in range(_TRIES):
            mutated = mutate_json(data, max_size, chance, on_bytes)
            if fits(_document(mutated)):
                break
        return mutated

    return mutate


def _format_target(kind: FileKind) -> Target:
    return Target(
        seeds=lambda: map(as_bytes, DOCUMENTS[kind]),
        mutate=_keeping(lambda document: find_kind(document) == kind),
    )


TARGETS: Final[Mapping[str, Target]] = {
    "png": Target(seeds=c.png_seeds, mutate=c.mutate_png),
    "webp": Target(seeds=c.webp_seeds, mutate=c.mutate_webp),
    "charx": Target(seeds=c.archive_seeds, mutate=c.mutate_archive),
    "jpeg": Target(seeds=c.jpeg_seeds, mutate=c.mutate_jpeg),
    "risum": Target(seeds=c.risum_seeds, mutate=c.mutate_risum),
    "text": Target(seeds=plain.json_seeds, mutate=plain.mutate_text),
    "yaml": Target(
        seeds=plain.yaml_seeds,
        mutate=plain.mutate_yaml,
        check=partial(check, name="灯.yaml"),
    ),
    NATIVE: Target(
        seeds=lambda: map(as_bytes, NATIVE_DOCUMENTS),
        mutate=_keeping(is_native),
        check=check_opening,
    ),
    **{kind.value: _format_target(kind) for kind in FileKind},
}


def target_of(data: bytes) -> str:
    """Return the name of the target that a file is a seed of."""
    for magic, name in _MAGICS:
        if data.startswith(magic):
            return name
    document = _document(data)
    return NATIVE if is_native(document) else find_kind(document) or "text"


def corpus_seeds(name: str) -> Iterator[bytes]:
    """Yield the small files of the corpus, if there is one, that are seeds of a target."""
    for path in sorted(_CORPUS.rglob("*")):
        if path.is_file() and path.name != "manifest.json" and path.stat().st_size <= MAX_BYTES:
            data = path.read_bytes()
            if target_of(data) == name:
                yield data
