"""The command: measures, prints, and fails only if a result is wrong."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import sillytavern, speed
from bench.growth import growing
from bench.importing import importing
from bench.inputs import FOLDER, load_input
from bench.memory import memory
from bench.plan import FULL, QUICK, TINY, Plan
from bench.profiling import profiles
from bench.quality import CORPUS, quality
from bench.recall import recall
from bench.report import Section
from bench.vectors import searching


def sections(plan: Plan) -> list[Section]:
    """Measure all sections, in the order of the report."""
    small, large = (load_input(size) for size in plan.sizes)
    return [
        speed.compiling(large, plan),
        speed.selecting(small, plan),
        speed.selecting(large, plan),
        growing(small.case, plan),
        speed.ranking(large, plan),
        speed.regexes(small, plan),
        sillytavern.turns(small, plan),
        sillytavern.turns(large, plan),
        sillytavern.growing(small.case, plan),
        sillytavern.macros(small, plan),
        importing(plan),
        quality(plan),
        recall(plan),
        searching(plan),
        memory(plan),
        *profiles(large, plan),
    ]


def machine() -> str:
    """Return a description of the machine."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def show(plan: Plan, tables: Sequence[Section]) -> str:
    """Return the report as text."""
    head = f"Lorewell compared with a naive keyword scan ({plan.name} run)\n{machine()}"
    targets = [target.line() for table in tables for target in table.targets]
    wrong = [f"  WRONG    {what}" for table in tables for what in table.wrong]
    verdict = "\n".join(["Targets", *targets, *wrong])
    return "\n\n".join([head, *(table.text() for table in tables), verdict])


def as_json(plan: Plan, tables: Sequence[Section]) -> dict[str, object]:
    """Return all figures by section."""
    return {
        "run": plan.name,
        "machine": machine(),
        **{table.name: table.figures for table in tables},
        "targets": {
            target.name: {"found": target.found, "wanted": target.wanted, "met": target.met}
            for table in tables
            for target in table.targets
        },
        "wrong": [what for table in tables for what in table.wrong],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the report, and return 1 if any result is wrong, else 0."""
    parser = argparse.ArgumentParser(
        prog="dev.py bench",
        description="Compare the engine with a naive keyword scan.",
        epilog=f"{FOLDER}: folder with other books and chats. {CORPUS}: folder with real books.",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="take a few seconds; rougher figures")
    size.add_argument("--tiny", action="store_true", help="use small books, for the tests")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args(argv)
    plan = TINY if options.tiny else QUICK if options.quick else FULL
    tables = sections(plan)
    print(show(plan, tables))
    if options.json:
        text = json.dumps(as_json(plan, tables), indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 1 if any(table.wrong for table in tables) else 0


if __name__ == "__main__":
    sys.exit(main())
