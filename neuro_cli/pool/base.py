"""Interface of the pools of a search, which take tasks and return one result for each."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WorkUnit:
    """Unit of work for a pool: `payload` is JSON data or bytes for what `kind` names (`neuro_cli/broker/worker/kinds.py`).

    `id` is the submitter's and unique within its run: submitting an id again is the same task, never a second one.
    """

    id: str
    kind: str
    payload: dict[str, Any] | bytes

    @property
    def data(self) -> bytes:
        """Payload of the work in bytes, as it is sent."""
        return self.payload if isinstance(self.payload, bytes) else json.dumps(self.payload).encode()


@dataclass(frozen=True)
class WorkResult:
    """Result of a task: `payload` when `error` is empty, else the error's text (a traceback for a task that raised)."""

    id: str
    payload: dict[str, Any]
    error: str
    worker: str
    seconds: float


class Pool(ABC):
    """Place where tasks run: brokers and their workers, on this machine or on a cluster.

    ``own_workers``: the workers begin and end with the pool; otherwise they belong to a cluster that serves others too.
    """

    own_workers = True

    @abstractmethod
    def submit(self, tasks: Sequence[WorkUnit]) -> None:
        """Queue tasks. An id that was submitted before is not run again; its result comes once."""

    @abstractmethod
    def results(self, timeout: float) -> list[WorkResult]:
        """Return the results that arrived since the last call, each once; wait up to `timeout` seconds for the first."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the counts to display: workers, tasks waiting and running, brokers."""

    @abstractmethod
    def close(self) -> None:
        """Release the pool. Its unfinished tasks may continue or be dropped."""


def payload_of(data: bytes) -> tuple[dict[str, Any], str]:
    """Read the JSON object of a pool's result. Returns it and an empty text, or nothing and the reason."""
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        return {}, "the task's result is no JSON"
    if not isinstance(payload, dict):
        return {}, f"the task's result must be a JSON object, not {type(payload).__name__}"
    return payload, ""
