"""Registry of task kinds: a name is a function from JSON data to JSON data, found without running anything a message says."""

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from neuro_cli.core.errors import UserError

OWNER_VARIABLE = "NEURO_WORKER_ALLOWS"  # set for the processes of a worker's tasks, JSON: what its owner allows a `hydra_job`
KINDS = {
    "noop": "neuro_cli.broker.worker.kinds:noop",
    "candidate": "neuro_cli.search.candidate:train_candidate",
    "hydra_job": "neuro_cli.launch.sweep_job:run_job",
}
SEARCHING = ("noop", "candidate")  # what the processes of a search of its own do: it has no other tasks
ON_REQUEST = ("hydra_job",)  # done by a worker with worker.kinds that names it only: a job's overrides may name much


def function_of(kind: str, kinds: Mapping[str, str] = KINDS) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function of a kind of task, of those in ``kinds``.

    Raises UserError for a kind that is not registered, or has no function here.
    """
    if kind not in kinds:
        raise UserError(f"the task's type {kind!r} is unknown to this worker; it knows {', '.join(sorted(kinds))}")
    module, _, name = kinds[kind].partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"the task's type {kind!r}: there is no {kinds[kind]} here ({error})") from error


def noop(payload: dict[str, Any]) -> dict[str, Any]:
    """Say when it began (seconds since 1970), and take ``payload["seconds"]`` if that is there."""
    began = time.time()
    time.sleep(float(payload.get("seconds", 0.0)))
    return {"began": began, "echo": payload.get("echo")}
