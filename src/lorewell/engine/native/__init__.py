"""The native policy. The modules follow docs/rules/native.md §8."""

from lorewell.engine.native.recall import NO_VECTORS, VectorScores, recall_text
from lorewell.engine.native.select import select
from lorewell.engine.native.snapshot import SnapshotLimits

__all__ = ["NO_VECTORS", "SnapshotLimits", "VectorScores", "recall_text", "select"]
