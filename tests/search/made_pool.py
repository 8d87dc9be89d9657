"""A pool without processes: candidates have a made-up fitness, some fail, and results come in an order of its own."""

import json
import random
from collections.abc import Sequence
from typing import Any

from neuro_cli.pool.base import Pool, WorkResult, WorkUnit


class MadePool(Pool):
    """``fails``: layers whose modules fail in their training; ``lost``: layers whose modules end their process.

    Other arguments are those of a real pool.
    """

    def __init__(self, order: int = 0, fails: Sequence[str] = (), lost: Sequence[str] = (), **_: Any) -> None:
        self._chances, self._fails, self._lost = random.Random(order), set(fails), set(lost)
        self._waiting: dict[str, WorkUnit] = {}

    def submit(self, tasks: Sequence[WorkUnit]) -> None:
        self._waiting |= {task.id: task for task in tasks}

    def results(self, timeout: float) -> list[WorkResult]:
        if not self._waiting:
            return []
        task = self._waiting.pop(self._chances.choice(sorted(self._waiting)))
        module = task.payload["model"]["module"]
        if self._lost & set(module):
            return [WorkResult(task.id, {}, "its worker process ended with signal SIGKILL", "made", 0.5)]
        if self._fails & set(module):
            return [WorkResult(task.id, {"error": "it does not fit in memory: too wide", "seconds": 0.1}, "", "made", 0.5)]
        accuracy = sum(layer.startswith("5") for layer in module) / 5
        numbers = {"loss": 1 - accuracy, "train_loss": 1.0, "test_accuracy": accuracy / 2, "test_loss": 1.0, "parameters": 7}
        return [WorkResult(task.id, {"fitness": accuracy, **numbers, "seconds": 0.1}, "", "made", 0.1)]

    def facts(self) -> dict[str, Any]:
        return {"workers": 1, "waiting": len(self._waiting)}

    def close(self) -> None:
        self._waiting.clear()


class InsidePool(MadePool):
    """Candidates are really trained, one after the other in the search's own process."""

    def results(self, timeout: float) -> list[WorkResult]:
        from neuro_cli.search.candidate import train_candidate

        task = self._waiting.pop(sorted(self._waiting)[0])
        payload = json.loads(json.dumps(task.payload))
        return [WorkResult(task.id, train_candidate(payload), "", "inside", 0.1)]
