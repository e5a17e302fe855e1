"""Where the time of a selection goes: own time by module and function."""

from __future__ import annotations

import cProfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import lorewell
from bench.inputs import BenchInput, request_of
from bench.plan import Plan
from bench.report import Section
from bench.speed import answer
from lorewell.model.select import Explain

MODES: tuple[Explain, ...] = ("selected", "full")
SHOWN = 12
PACKAGE = Path(lorewell.__file__).parent
NOTE = "The profiler's overhead exaggerates the time of small functions."


@dataclass(frozen=True, slots=True)
class Profile:
    """Shares of own time, 0 to 1, largest first, and calls per turn.

    A built-in function counts towards its caller's module, and as a function of its own.
    """

    modules: Mapping[str, float]
    functions: Mapping[str, float]
    calls: Mapping[str, float]


def profiles(large: BenchInput, plan: Plan) -> list[Section]:
    """Profile selections: one table of modules, and one of functions per `explain`."""
    found = {mode: _profile(large, plan, mode) for mode in MODES}
    return [_modules(found), *(_functions(mode, profile) for mode, profile in found.items())]


def _modules(found: Mapping[Explain, Profile]) -> Section:
    shares: dict[str, Mapping[str, float]] = {
        mode: profile.modules for mode, profile in found.items()
    }
    names = sorted({name for each in shares.values() for name in list(each)[:SHOWN]})
    names.sort(key=lambda name: -shares[MODES[0]].get(name, 0))
    return Section(
        name="profile_modules",
        title="Own time by module, including the built-in functions it calls",
        header=("", *(f"explain {mode}" for mode in shares)),
        rows=[[name, *(f"{each.get(name, 0):.1%}" for each in shares.values())] for name in names],
        figures=shares,
        note=NOTE,
    )


def _functions(mode: Explain, profile: Profile) -> Section:
    top = list(profile.functions.items())[:SHOWN]
    return Section(
        name=f"profile_{mode}",
        title=f"Own time by function, explain {mode}",
        header=("", "share", "calls per turn"),
        rows=[[name, f"{share:.1%}", f"{profile.calls[name]:,.0f}"] for name, share in top],
        figures=dict(top),
        note=NOTE,
    )


def _profile(large: BenchInput, plan: Plan, explain: Explain) -> Profile:
    call = answer(large.books, request_of(large.case, large.books, explain=explain))
    call()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(plan.profiled):
        call()
    profile.disable()
    modules: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    total = 0
    for entry in profile.getstats():
        nanoseconds = round(entry.inlinetime * 1e9)
        module, name = _names(entry.code)
        total += nanoseconds
        functions[name] += nanoseconds
        calls[name] += entry.callcount
        if module is not None:
            built_in = sum(c.inlinetime for c in entry.calls or () if isinstance(c.code, str))
            modules[module] += nanoseconds + round(built_in * 1e9)
    return Profile(
        modules={name: own / total for name, own in modules.most_common()},
        functions={name: own / total for name, own in functions.most_common()},
        calls={name: number / plan.profiled for name, number in calls.items()},
    )


def _names(code: CodeType | str) -> tuple[str | None, str]:
    """Return module and `module:function`; for a built-in function None and its name."""
    if isinstance(code, str):
        return None, code.strip("<>")
    path = Path(code.co_filename)
    if code.co_filename == "<string>":
        return "dataclasses", "dataclasses: generated __init__"
    if path.is_relative_to(PACKAGE):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    else:
        module = f"{path.parent.name}.{path.stem}"
    return module, f"{module}:{code.co_qualname}"
