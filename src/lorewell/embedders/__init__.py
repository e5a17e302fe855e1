"""Makes vectors of texts: by a server that speaks OpenAI's protocol, or a model at hand."""

from __future__ import annotations

from typing import Literal, assert_never

from lorewell.app.ports import Embedder
from lorewell.embedders.options import EmbedderOptions

__all__ = ["EmbedderKind", "EmbedderOptions", "make_embedder"]

EmbedderKind = Literal["none", "openai", "local"]


def make_embedder(kind: EmbedderKind, options: EmbedderOptions) -> Embedder | None:
    """Return what makes vectors, None for `none`. It connects and loads when it is first used.

    Raises:
        ValidationFailedError: the extra `local-embeddings` is not installed, or the URL can't be
            read.
    """
    match kind:
        case "none":
            return None
        case "openai":
            # Here and not above, as below: who has no vectors loads no numpy for them.
            from lorewell.embedders.openai_compatible import OpenAiEmbedder  # noqa: PLC0415

            return OpenAiEmbedder(options)
        case "local":
            from lorewell.embedders.local import LocalEmbedder  # noqa: PLC0415

            return LocalEmbedder(options)
        case _:
            assert_never(kind)
