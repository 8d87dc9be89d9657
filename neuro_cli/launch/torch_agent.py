"""torchrun on this machine without its tracebacks: python -m neuro_cli.launch.torch_agent RANKS PROGRAM ...

A request to stop goes to the ranks, which write a checkpoint and end by themselves; torchrun would kill them after 30 seconds.
"""

import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

from neuro_cli.core.errors import FAILED

OURS = ("SIGHUP", "SIGQUIT")  # signals that torchrun handles


def options(ranks: int, port: int) -> list[str]:
    """Return torchrun's options for ``ranks`` ranks that meet at ``port`` of the loopback interface."""
    place = ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    return [f"--nproc-per-node={ranks}", *place, "--signals-to-handle", ",".join(OURS), "--no-python"]


def pass_on(number: int, frame: FrameType | None) -> None:
    """Send a signal of this process to all ranks."""
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), number)


def main() -> None:
    """Run the ranks to their end, and end with the exit code of the first one that failed."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the ranks say what is wrong
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, pass_on)
    try:
        run.main([*options(int(sys.argv[1]), port), *sys.argv[2:]])
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        sys.exit(failure.exitcode if failure.exitcode > 0 else FAILED)


if __name__ == "__main__":
    main()
