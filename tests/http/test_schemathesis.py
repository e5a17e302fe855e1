"""The requests of `documented_answers.py`, in a run of their own.

Schemathesis makes its examples while tests are collected, for 13 seconds. Here that happens once,
and not once more in every worker and in every run of a few tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("documented_answers.py")


@pytest.mark.long
def test_answers_are_as_documented() -> None:
    plugins = ("-p", "schemathesis", "-p", "no:cacheprovider", "-p", "no:xdist")
    command = [sys.executable, "-m", "pytest", *plugins, str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert " passed" in done.stdout
