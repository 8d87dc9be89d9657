"""Process in which tasks run, one after the other: tasks come on its standard input, attempts go to its standard output.

    python -m neuro_cli.broker.worker.child \\
        '{"kinds": {"noop": "neuro_cli.broker.worker.kinds:noop"}, "payload_limit": 4000000, "ranks": 1}'

With more ranks a launcher starts it on each of them, and rank 0 reads and writes (``launch.task_world``).
``process.TaskProcess`` is its owner's side, ``attempt`` has the messages between them.
It ends with its input, and with its owner.
"""

import faulthandler
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from neuro_cli.broker.worker.attempt import Attempt, Ending, failed, framed, read_frame
from neuro_cli.broker.worker.kinds import process_task
from neuro_cli.core.errors import UserError
from neuro_cli.factory.own_code import let_import

if TYPE_CHECKING:
    from neuro_cli.broker.worker.world import TaskWorld


def main() -> None:
    """Do the owner's tasks in this child process until the input ends."""
    if sys.platform == "linux":
        _be_killed_first()
    faulthandler.enable()
    settings = json.loads(sys.argv[1])
    let_import()  # types of the worker's owner may lie in the current folder
    tasks, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # input and output of a task must not count as messages
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    world = _world(settings["ranks"])
    while True:
        frame = read_frame(tasks) if world is None or world.answers else None
        frame = frame if world is None else world.shared(frame)
        if frame is None:
            return
        work = partial(run, frame[0]["kind"], frame[1], settings["kinds"], settings["payload_limit"])
        attempt = work() if world is None else world.run(work)
        if world is None or world.answers:
            with suppress(BrokenPipeError):  # the owner has ended, and the input with it
                # Open MPI's launcher passes complete lines on
                results.write(framed(*attempt.frame()) + (b"" if world is None else b"\n"))
                results.flush()


def _world(ranks: int) -> "TaskWorld | None":
    """Return the world of the ranks that do tasks together, None for one rank, which needs no MPI."""
    if ranks == 1:
        return None
    from neuro_cli.broker.worker.world import TaskWorld

    try:
        return TaskWorld(ranks)
    except UserError as error:
        sys.exit(str(error))


def run(kind: str, payload: bytes, kinds: Mapping[str, str], payload_limit: int) -> Attempt:
    """Do one task in this child process. The attempt has any error that it raises."""
    began = time.perf_counter()

    def ended(ending: Ending, error: str) -> Attempt:
        return failed(ending, error, time.perf_counter() - began)

    try:
        text = process_task(kind, payload, kinds)
    except UserError as error:
        return ended(Ending.RAISED if kind in kinds else Ending.UNKNOWN_KIND, " ".join(str(error).split()))
    except MemoryError:
        return ended(Ending.OUT_OF_MEMORY, traceback.format_exc())
    except BaseException:
        return ended(Ending.RAISED, traceback.format_exc())
    if len(text) > payload_limit:
        return ended(Ending.TOO_LARGE, f"the result has {len(text)} bytes, {payload_limit} are allowed")
    return Attempt(Ending.DONE, text, seconds=time.perf_counter() - began)


def _be_killed_first() -> None:
    """Ask the kernel to choose the task when the machine has no memory left, not its owner or a broker."""
    with suppress(OSError):  # a container may forbid it: the kernel then chooses by size
        Path("/proc/self/oom_score_adj").write_text("1000")


if __name__ == "__main__":
    main()
