"""A page that shows the live channel. It holds no data, so loading it needs no key."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response

from lorewell.http.pages import answer_page

PAGE: Final = Path(__file__).with_name("live.html")

router = APIRouter(include_in_schema=False)


@router.get("/live")
async def show_live() -> Response:
    """Return the page."""
    return answer_page(PAGE)
