"""Embedders: a server that speaks OpenAI's protocol, or a local model."""

from __future__ import annotations

from typing import Literal, assert_never

from lorewell.app.ports import Embedder
from lorewell.embedders.options import EmbedderOptions

__all__ = ["EmbedderKind", "EmbedderOptions", "make_embedder"]

EmbedderKind = Literal["none", "openai", "local"]


def make_embedder(kind: EmbedderKind, options: EmbedderOptions) -> Embedder | None:
    """Return an embedder; None for `none`. It connects or loads its model at first use.

    Raises:
        ValidationFailedError: the extra `local-embeddings` is not installed, or the URL or the key
            is invalid.
    """
    match kind:
        case "none":
            return None
        case "openai":
            # Imported here, as below: without vectors, numpy is not loaded.
            from lorewell.embedders.openai_compatible import OpenAiEmbedder  # noqa: PLC0415

            return OpenAiEmbedder(options)
        case "local":
            from lorewell.embedders.local import LocalEmbedder  # noqa: PLC0415

            return LocalEmbedder(options)
        case _:
            assert_never(kind)
