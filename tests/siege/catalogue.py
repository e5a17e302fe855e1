"""All attacks by name. A new one is a function in a module beside this one and a line there."""

from __future__ import annotations

from dataclasses import replace

from siege.attack import Attack, Blow, Site
from siege.files import FILES
from siege.loops import LOOPS
from siege.turns import TURNS
from siege.wire import WIRE

# One a caller, each from another corner.
_MIXED = (
    *("nested keys", "v8 depths", "commas in keys", "brackets and commas of JSON"),
    *("pings without key", "pipelined and unread", "exports", "callers that leave"),
)
_ALONE = {attack.name: attack for attack in (*TURNS, *FILES, *WIRE, *LOOPS)}


def _all(site: Site) -> list[Blow]:
    made = [_ALONE[name].make(site) for name in _MIXED]
    return [blows[0] for blows in made]


ATTACKS = {**_ALONE, "eight at once": Attack(name="eight at once", make=_all, short=0.02)}


def find(name: str) -> Attack:
    """Return an attack by its name; with `#` and a number it sends one of its payloads alone."""
    of, _, number = name.partition("#")
    attack = ATTACKS[of]
    if not number:
        return attack
    return replace(attack, name=name, make=lambda site: [attack.make(site)[int(number)]])
