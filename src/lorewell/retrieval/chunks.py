"""Splits long contents into chunks that can be embedded (docs/rules/native.md §10)."""

from __future__ import annotations

from collections.abc import Iterator

STEP = 1_000
LENGTH = 1_200
# Part of every embedding version: other chunks give other vectors.
CHUNKER = f"chunks-{STEP}-{LENGTH}"


def chunks_of(title: str, content: str) -> Iterator[tuple[int, str]]:
    r"""Yield each chunk's start, in code points, and the text to embed for it.

    A blank content has no chunks.

    >>> [(start, len(text)) for start, text in chunks_of("灯塔", "雾" * 2100)]
    [(0, 1203), (1000, 1103), (2000, 103)]
    >>> list(chunks_of("", "The lamp burns."))
    [(0, 'The lamp burns.')]
    """
    if not content.strip():
        return
    head = f"{title}\n" if title else ""
    for start in range(0, len(content), STEP):
        yield start, head + content[start : start + LENGTH]
