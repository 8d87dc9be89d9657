"""Actions from the outputs of policies: the choice with the greatest output, or a vector clipped to the bounds of a Box.

An output is the action itself, in the units of the Box, or in halves of its width (:attr:`Spaces.scaled`).

Legend: n rows, O outputs.
"""

from typing import Any

import numpy as np

from neuro_cli.task.reinforcement.environment import Spaces


def actions_of(spaces: Spaces, outputs: np.ndarray) -> tuple[Any, bool]:
    """Return an action for each row of ``outputs`` (n, O) float32, and whether all outputs are numbers; if not, any action."""
    good = bool(np.isfinite(outputs).all())
    if spaces.actions:
        # np.int64, as action_space.sample() gives; gymnasium checks an int for longer
        return list(spaces.first + outputs.argmax(axis=1)), good
    return bounded(spanning(outputs, spaces.low, spaces.high) if spaces.scaled else outputs, spaces.low, spaces.high), good


def spanning(outputs: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return ``outputs`` (n, O) in float64, with ``low`` (O,) in place of -1 or less and ``high`` in place of 1 or more."""
    half = np.float64(high) / 2 - np.float64(low) / 2
    return np.float64(low) + half + np.clip(outputs, -1, 1) * half


def bounded(outputs: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Clip actions, ``outputs`` (n, O) float32, to ``low`` and ``high`` (O,) in their dtype; integers are rounded."""
    if low.dtype.kind == "f":  # another dtype might round the bounds outward
        return np.clip(outputs.astype(low.dtype), low, high)
    rounded = np.rint(outputs)
    # no float equals a bound such as 2**63 - 1: only values between the bounds are cast
    inside = np.where((low < rounded) & (rounded < high), rounded, 0).astype(low.dtype)
    return np.where(rounded >= high, high, np.where(rounded <= low, low, inside))
