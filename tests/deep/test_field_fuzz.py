"""Hostile input in every field of every route, in one size and in four times that.

`python3 dev.py deep fields` runs it. LOREWELL_FUZZ_PART=n sends one probe in n, 20 by default;
LOREWELL_FUZZ_SIZE is the smaller size.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import hostile_fields as hostile
import measured
from service import serving

PART = int(os.environ.get("LOREWELL_FUZZ_PART", "20"))
SIZE = int(os.environ.get("LOREWELL_FUZZ_SIZE", "3000"))
MAX_BYTES = 1024**3


def test_no_field_costs_more_than_its_size(tmp_path: Path, report: Callable[[str], None]) -> None:
    sent = 0

    def keep(name: str) -> bool:
        nonlocal sent
        kept = zlib.crc32(name.encode()) % PART == 0
        sent += kept
        return kept

    with serving(database_url=f"sqlite:///{tmp_path}/lorewell.db", replica_tenant="demo") as api:
        target = hostile.in_process(api)
        wrong = [*hostile.campaign(target, size=SIZE, clock=time.process_time, keep=keep)]
    peak = measured.memory_bytes("VmHWM")
    report(f"{sent:,} probes, {len(wrong)} at fault, {peak / 1e6:.0f} MB at most")
    for each in wrong:
        report(each)
    assert not wrong
    assert peak < MAX_BYTES
