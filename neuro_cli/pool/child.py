"""A child process of `LocalPool`: one task after the other, each a line of JSON on its input, each result a line on its output.

    python -m neuro_cli.pool.child OWNER [MEMORY_BYTES]

It ends with its input, and with the process OWNER that started it.
"""

import json
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import Any

from neuro_cli.broker.worker.kinds import function_of
from neuro_cli.core.errors import UserError
from neuro_cli.core.process import die_with_parent


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """Do a task (`id`, `kind`, `payload`): its `id`, `payload`, `seconds`, and `error`, which is one line or a traceback."""
    begun = time.perf_counter()
    payload, error = {}, ""
    try:
        payload = function_of(task["kind"])(task["payload"])
    except UserError as refused:
        error = " ".join(str(refused).split())
    except Exception:
        error = traceback.format_exc()
    return {"id": task["id"], "payload": payload, "error": error, "seconds": time.perf_counter() - begun}


def main() -> None:
    die_with_parent(signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)  # the owner ended before this process could ask to end with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the pool's owner decides
    if len(sys.argv) > 2:
        # private memory only: a limit of the address space would count the files of torch's libraries
        resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]), int(sys.argv[2])))
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a task prints must not come between results
    with suppress(BrokenPipeError):
        for line in sys.stdin:
            results.write(json.dumps(answer(json.loads(line))) + "\n")
            results.flush()


if __name__ == "__main__":
    main()
