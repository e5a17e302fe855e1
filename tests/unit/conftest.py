"""What tests of the program share."""

from pathlib import Path

import pytest

from program import Lorewell


@pytest.fixture
def lorewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    return Lorewell(tmp_path, monkeypatch, capfd)
