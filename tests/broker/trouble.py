"""Kinds of task that give trouble, for workers with worker.more_kinds."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

NAMES = (
    "crash",
    "crash_once",
    "grow",
    "grow_elsewhere",
    "nap",
    "wait",
    "large",
    "chatty",
    "count",
    "leave",
    "leave_by_exit",
    "forge",
)
TROUBLE = {name: f"trouble:{name}" for name in NAMES}


def crash(payload: dict[str, Any]) -> dict[str, Any]:
    """Its process dies."""
    os.write(2, b"last words\n")
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def crash_once(payload: dict[str, Any]) -> dict[str, Any]:
    """Its process dies at the first attempt; ``mark`` is a file that tells."""
    mark = Path(payload["mark"])
    if not mark.exists():
        mark.touch()
        os._exit(3)
    return {"attempt": 2}


def grow(payload: dict[str, Any]) -> dict[str, Any]:
    """Takes ``mib`` of memory and holds it."""
    held = bytearray(payload["mib"] * 2**20)
    time.sleep(payload["seconds"])
    return {"held": len(held)}


def grow_elsewhere(payload: dict[str, Any]) -> dict[str, Any]:
    """Takes ``mib`` of memory in a process that it starts, and waits for that."""
    code = f"import time; held = bytearray({payload['mib']} * 2**20); time.sleep(600)"
    return {"code": subprocess.run([sys.executable, "-c", code]).returncode}


def leave(payload: dict[str, Any]) -> dict[str, Any]:
    """Its process ends and leaves another one behind, in a session of its own, that holds standard error."""
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    os.write(2, str(left.pid).encode())
    os._exit(3)


def leave_by_exit(payload: dict[str, Any]) -> dict[str, Any]:
    """Raises what ends a process that does not catch it."""
    sys.exit(3)


def forge(payload: dict[str, Any]) -> dict[str, Any]:
    """Writes the bytes ``words`` wherever it can, the pipe of its results included, and sleeps."""
    for descriptor in range(3, 20):
        with suppress(OSError):
            os.write(descriptor, bytes.fromhex(payload["words"]))
    time.sleep(600)
    return {}


def nap(payload: dict[str, Any]) -> dict[str, Any]:
    """Sleeps ``seconds``, says in whose process."""
    time.sleep(payload["seconds"])
    return {"pid": os.getpid()}


def wait(payload: dict[str, Any]) -> dict[str, Any]:
    """Waits until ``file`` exists."""
    while not Path(payload["file"]).exists():
        time.sleep(0.02)
    return {}


def large(payload: dict[str, Any]) -> dict[str, Any]:
    return {"text": "x" * payload["bytes"]}


def chatty(payload: dict[str, Any]) -> dict[str, Any]:
    """Writes where messages would go, and reads where tasks would come from."""
    print("x" * 100_000)
    os.write(1, b"\x00\x00\x00\x05hello")
    return {"read": os.read(0, 100).decode()}


def count(payload: dict[str, Any]) -> dict[str, Any]:
    """Adds a line to ``file`` for every time that it is done; a little work."""
    with Path(payload["file"]).open("a") as file:
        file.write(f"{payload['number']}\n")
    time.sleep(payload.get("seconds", 0.0))
    return {"square": payload["number"] ** 2}
