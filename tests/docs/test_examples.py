"""The programs in `examples` run as they stand."""

import subprocess
import sys

from docs.manual import ROOT


def test_the_chat_loop_tells_what_each_turn_got() -> None:
    done = subprocess.run(
        [sys.executable, "chat_loop.py", "mist-ferry.json"],
        cwd=ROOT / "examples",
        input="谁点亮了灯塔？\nIs it quiet?\n",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("你说：“谁点亮了灯塔？”我想到：")
    assert "  lighthouse: keyword" in lines
    assert "  silence: constant" in lines
    assert any(line.startswith("You say: “Is it quiet?”") for line in lines)
