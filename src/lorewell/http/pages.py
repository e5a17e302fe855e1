"""Pages of the service: one file each, with only its own inline scripts and styles."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final

from fastapi import Response

_INLINE: Final = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


def answer_page(path: Path) -> Response:
    """Return a page, with a policy for its inline code and requests to the service."""
    page, policy = _page(path)
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(page, media_type="text/html", headers=headers)


@cache
def _page(path: Path) -> tuple[bytes, str]:
    page = path.read_bytes()
    allowed: dict[bytes, list[str]] = {b"script": [], b"style": []}
    for tag, inline in _INLINE.findall(page):
        digest = base64.b64encode(hashlib.sha256(inline).digest()).decode()
        allowed[tag].append(f"'sha256-{digest}'")
    policy = (
        f"default-src 'none'; script-src {' '.join(allowed[b'script'])}; "
        f"style-src {' '.join(allowed[b'style'])}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy
