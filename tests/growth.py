"""How the cost of work grows with its input, by the processor time of this thread."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import thread_time
from typing import TypeVar

MOST = 6.0  # what an input four times as large may cost; linear work costs four times as much
_LEAST_S = 0.002  # below, what varies from run to run decides
_ROUNDS = 5

Made = TypeVar("Made")


def growth(make: Callable[[int], Made], run: Callable[[Made], object], size: int) -> float:
    """Return how many times as long the work takes for an input four times as large.

    Args:
        make: makes an input of a size; not measured.
        run: the work.
        size: of the smaller input.
    """
    small, large = make(size), make(4 * size)
    gc.collect()
    gc.disable()
    try:
        ratios = []
        for _ in range(_ROUNDS):
            ratios.append(_took(run, large) / (_took(run, small) + _LEAST_S / 4))
            if ratios[-1] < MOST:
                break
        return min(ratios)
    finally:
        gc.enable()


def _took(run: Callable[[Made], object], given: Made) -> float:
    began = thread_time()
    run(given)
    return thread_time() - began
