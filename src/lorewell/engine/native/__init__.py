"""The native policy. Reads like spec/native.md §8."""

from lorewell.engine.native.recall import VectorScores
from lorewell.engine.native.select import SnapshotLimits, select

__all__ = ["SnapshotLimits", "VectorScores", "select"]
