"""The policy `replica`: reproduces the world books of SillyTavern_replica."""

from lorewell.engine.replica.activate import activate
from lorewell.engine.replica.assemble import ReplicaDraft, ReplicaMessage, ReplicaPrompt, assemble
from lorewell.engine.replica.rag import RagScores, rag_queries
from lorewell.engine.replica.statistics import log_lines
from lorewell.engine.replica.world import ReplicaWorld, compile_world

__all__ = [
    "RagScores",
    "ReplicaDraft",
    "ReplicaMessage",
    "ReplicaPrompt",
    "ReplicaWorld",
    "activate",
    "assemble",
    "compile_world",
    "log_lines",
    "rag_queries",
]
