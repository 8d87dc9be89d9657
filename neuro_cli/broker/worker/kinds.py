"""Registry of task kinds: functions and classes by name, at places that this process's owner gave and no message can change."""

import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from neuro_cli.broker.task import BaseTask
from neuro_cli.core.errors import UserError

RESULT_VARIABLE = "NEURO_RESULT_BYTES"  # set for the processes of a worker's tasks: most bytes of a result
KINDS = {
    "noop": "neuro_cli.broker.worker.kinds:noop",
    "candidate": "neuro_cli.search.candidate:train_candidate",
}


def process_task(kind: str, payload: bytes, kinds: Mapping[str, str] = KINDS) -> bytes:
    """Do one task of a kind in ``kinds``, and return the bytes of its result.

    A class derived from `BaseTask` is built from ``payload`` and run; a function takes a JSON object and returns JSON.
    Raises UserError for a kind that is not registered or does not exist here, and for bytes that do not fit.
    """
    work = _located(kind, kinds)
    if isinstance(work, type) and issubclass(work, BaseTask):
        return work.result_to_bytes(work.from_bytes(payload).run())
    return json.dumps(work(_data(payload)), allow_nan=True).encode()


def _data(payload: bytes) -> dict[str, Any]:
    data = json.loads(payload or b"{}")
    if not isinstance(data, dict):
        raise UserError(f"the task's payload must be a JSON object, not {type(data).__name__}")
    return data


def _located(kind: str, kinds: Mapping[str, str]) -> Any:
    if kind not in kinds:
        raise UserError(f"the task's type {kind!r} is unknown to this worker; it knows {', '.join(sorted(kinds))}")
    home, _, name = kinds[kind].rpartition(":")
    try:
        return getattr(_module(home), name)
    except (ImportError, AttributeError, OSError) as error:
        raise UserError(f"the task's type {kind!r}: there is no {kinds[kind]} here ({error})") from error


@cache
def _module(home: str) -> Any:
    """Import ``package.module``, or the file ``folder/module.py``, which finds other files of its folder as a script does."""
    if not home.endswith(".py"):
        return importlib.import_module(home)
    path = Path(home).resolve()
    spec = importlib.util.spec_from_file_location(f"neuro_task_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{home} is no Python file")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # appended, so that installed packages come first
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def place_of(task: type[BaseTask]) -> str:
    """Return the place of a class for workers on this machine: its module, or its file where that belongs to a script.

    Raises UserError for a class that no other process can find.
    """
    if "." in task.__module__:
        return f"{task.__module__}:{task.__qualname__}"
    file = getattr(sys.modules[task.__module__], "__file__", None)
    if file is None or "<" in task.__qualname__:
        raise UserError(f"task {task.kind}: a worker's process must find its class: write it at the top of a file")
    return f"{Path(file).resolve()}:{task.__qualname__}"


def noop(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the time of its start (seconds since 1970), after a sleep of ``payload["seconds"]`` where given."""
    began = time.time()
    time.sleep(float(payload.get("seconds", 0.0)))
    return {"began": began, "echo": payload.get("echo")}
