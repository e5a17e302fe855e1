"""What to do about warnings, in the terms of the command line."""

from __future__ import annotations


def name_hint(count: int) -> str:
    """Return what to do about entries that need a name.

    >>> name_hint(1)
    '1 entry needs a name for {{char}} or {{user}}: give --char/--user'
    """
    entries = "1 entry needs" if count == 1 else f"{count} entries need"
    return f"{entries} a name for {{{{char}}}} or {{{{user}}}}: give --char/--user"
