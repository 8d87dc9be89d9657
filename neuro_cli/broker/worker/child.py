"""The process in which a worker's tasks run, one after the other: tasks on its standard input, results on its standard output.

python -m neuro_cli.broker.worker.child '{"kinds": {"noop": "neuro_cli.broker.worker.kinds:noop"}, "payload_limit": 4000000}'
"""

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.worker.frames import framed, read_frame
from neuro_cli.broker.worker.kinds import function_of
from neuro_cli.core.errors import UserError
from neuro_cli.core.process import die_with_parent
from neuro_cli.runner.own_code import let_import

ERROR_BYTES = 16384  # of an error's text, its end


def main() -> None:
    """Do tasks until the input ends."""
    die_with_parent(signal.SIGKILL)
    if sys.platform == "linux":
        _be_killed_first()
    faulthandler.enable()
    told = json.loads(sys.argv[1])
    let_import()  # types of the worker's own may lie there
    tasks, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # what a task reads and prints must not be taken for messages
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    while (text := read_frame(tasks)) is not None:
        result = run(messages.Task.FromString(text), told["kinds"], told["payload_limit"])
        results.write(framed(result.SerializeToString()))
        results.flush()


def run(task: messages.Task, kinds: Mapping[str, str], payload_limit: int) -> messages.Result:
    """Do one task; whatever it raises is in the result."""
    result = messages.Result(run=task.run, id=task.id)
    began = time.perf_counter()
    try:
        answer = function_of(task.kind, kinds)(_data(task.payload))
        payload = json.dumps(answer, allow_nan=True).encode()
    except UserError as error:
        outcome = messages.UNKNOWN_KIND if task.kind not in kinds else messages.RAISED
        _fail(result, outcome, str(error))
    except MemoryError:
        _fail(result, messages.OUT_OF_MEMORY, traceback.format_exc())
    except BaseException:
        _fail(result, messages.RAISED, traceback.format_exc())
    else:
        result.outcome, result.payload = messages.DONE, payload
        if len(payload) > payload_limit:
            result.ClearField("payload")
            _fail(result, messages.TOO_LARGE, f"the result has {len(payload)} bytes, {payload_limit} are allowed")
    result.seconds = time.perf_counter() - began
    return result


def _data(payload: bytes) -> dict[str, Any]:
    data = json.loads(payload or b"{}")
    if not isinstance(data, dict):
        raise UserError(f"the task's payload must be a JSON object, not {type(data).__name__}")
    return data


def _fail(result: messages.Result, outcome: messages.Outcome, text: str) -> None:
    result.outcome = outcome
    result.error = text.encode(errors="replace")[-ERROR_BYTES:].decode(errors="ignore")


def _be_killed_first() -> None:
    """When the machine has no memory left the kernel is to choose the task, not the worker or the broker."""
    with suppress(OSError):  # a container may not allow it: the kernel then chooses by size
        Path("/proc/self/oom_score_adj").write_text("1000")


if __name__ == "__main__":
    main()
