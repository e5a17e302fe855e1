"""The native policy. The modules follow docs/rules/native.md §8."""

from lorewell.engine.native.recall import NO_VECTORS, VectorScores
from lorewell.engine.native.select import SnapshotLimits, select

__all__ = ["NO_VECTORS", "SnapshotLimits", "VectorScores", "select"]
