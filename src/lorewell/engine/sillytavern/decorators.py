"""Decorators: lines of `@@word` before the content (docs/rules/sillytavern.md §5)."""

from __future__ import annotations

ACTIVATE, DONT_ACTIVATE = "@@activate", "@@dont_activate"
_FALLBACK = "@@@"


def split_decorators(content: str) -> tuple[tuple[str, ...], str]:
    r"""Return the known decorators of a content (whole lines) and the content without them.

    A line that starts with `@@@` counts only after an unknown decorator. If every line starts with
    `@@`, the content is returned unchanged.

    >>> split_decorators("@@activate\n@@@unknown\nA lamp.")
    (('@@activate',), 'A lamp.')
    >>> split_decorators("@@activate")
    (('@@activate',), '@@activate')
    """
    found: list[str] = []
    if not content.startswith("@@"):
        return (), content
    fallback = False
    at = 0
    while at < len(content):
        if not content.startswith("@@", at):
            return tuple(found), content[at:]
        end = content.find("\n", at)
        end = len(content) if end < 0 else end
        line = content[at:end]
        at = end + 1
        if line.startswith(_FALLBACK) and not fallback:
            continue
        decorator = line[1:] if line.startswith(_FALLBACK) else line
        fallback = not decorator.startswith((ACTIVATE, DONT_ACTIVATE))
        if not fallback:
            found.append(decorator)
    return tuple(found), "" if at == len(content) else content
