"""The native policy. Reads like spec/native.md §8."""

from lorewell.engine.native.recall import VectorRanks
from lorewell.engine.native.select import SnapshotLimits, select

__all__ = ["SnapshotLimits", "VectorRanks", "select"]
