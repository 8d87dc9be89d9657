"""Ranks of torch.distributed on this machine, forks of one process that has the imports, so that memory has these once.

    python -P -m neuro_cli.launch.torch_agent RANKS PYTHON -P -m neuro_cli VERB RUN ...

torchrun would start each by itself, print tracebacks, and kill ranks that need more than 30 seconds for a checkpoint.
"""

import gc
import os
import runpy
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

from neuro_cli.core.errors import FAILED, UserError
from neuro_cli.core.machine.process import die_with_parent
from neuro_cli.factory.construct import TARGET
from neuro_cli.run_folder.identity import leaves

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
PATIENCE = 30  # seconds for the other ranks to end by themselves after one has failed


def load(run: Path) -> None:
    """Import what ranks of ``run`` need, without a computation, since a fork has none of the threads that it begins.

    What is wrong with the run is theirs to say.
    """
    import neuro_cli.runner.session  # noqa: F401
    from neuro_cli.runner.build import form_of
    from neuro_cli.runner.load import read_config

    with suppress(UserError):
        config = read_config(run, trust=[])
        targets = [str(value) for key, value in leaves(config) if key.endswith(TARGET)]
        for target in targets:
            if target.startswith("neuro_cli."):
                import_module(target.rpartition(".")[0])
        if str(config["model"].get(TARGET)).startswith("neuro_cli.model."):
            form_of(config)  # transformers imports a network's module when it creates one


def variables(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return torchrun's variables for a rank; ranks meet at ``port`` of the loopback interface."""
    place = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in place.items()}}


def become(words: list[str], own: dict[str, str], agent: int) -> None:
    """Let this fork be ``python -P WORDS`` with the variables ``own``; it gets SIGTERM when the process ``agent`` ends."""
    for number in STOPS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    die_with_parent(signal.SIGTERM, agent)
    os.environ.update(own)
    kind, what, *arguments = words
    sys.argv = [what, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(what, {"__name__": "__main__"})


def ended(ranks: set[int]) -> int:
    """Wait for the processes ``ranks``, and return the exit code of the first one that failed."""
    first = 0
    while ranks:
        pid, status = os.wait()
        ranks.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        if code and not first:
            first = code if code > 0 else FAILED
            signal.signal(signal.SIGALRM, lambda number, frame: pass_on(ranks, signal.SIGKILL))
            signal.alarm(PATIENCE)
    return first


def pass_on(ranks: set[int], number: int) -> None:
    for pid in ranks:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def main() -> None:
    """Run the ranks to their end, and end with the exit code of the first one that failed."""
    count, (python, alone, *words) = int(sys.argv[1]), sys.argv[2:]
    assert (python, alone) == (sys.executable, "-P")
    gc.disable()
    if words[:2] == ["-m", "neuro_cli"]:
        load(Path(words[3]))
    gc.freeze()  # a search for cycles would write to the pages that ranks share
    gc.enable()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agent, ranks = os.getpid(), set[int]()

    def stop(number: int, frame: FrameType | None) -> None:
        pass_on(ranks, number)

    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # a signal between two forks would reach the first alone
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            become(words, variables(rank, count, port), agent)
            return
        ranks.add(pid)
    for number in STOPS:
        signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    sys.exit(ended(ranks))


if __name__ == "__main__":
    main()
