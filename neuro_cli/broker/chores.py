"""Kinds of task that do next to nothing: for measurements, and to see whether a cluster works."""

import time
from typing import Any


def noop(payload: dict[str, Any]) -> dict[str, Any]:
    """Say when it began (seconds since 1970), and take ``payload["seconds"]`` if that is there."""
    began = time.time()
    time.sleep(float(payload.get("seconds", 0.0)))
    return {"began": began, "echo": payload.get("echo")}
