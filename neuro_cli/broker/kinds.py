"""The registry of task kinds: a name is a function from JSON data to JSON data, found without running anything a message says."""

import importlib
from collections.abc import Callable
from typing import Any

from neuro_cli.core.errors import UserError

KINDS = {
    "noop": "neuro_cli.broker.chores:noop",
    "candidate": "neuro_cli.search.candidate:train_candidate",
    "hydra_job": "neuro_cli.broker.hydra_job:run_job",
}


def function_of(kind: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The function behind a kind of task.

    Raises UserError for a kind that is not registered.
    """
    if kind not in KINDS:
        raise UserError(f"the task's type {kind!r} is unknown to this worker; it knows {', '.join(sorted(KINDS))}")
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module(module), name)
