"""Ranks of torch.distributed on this machine, forks of one process that has the imports, so that memory has these once.

    python -P -m neuro_cli.launch.torch_agent RANKS PYTHON -P -m neuro_cli VERB RUN ...

The command itself forks this process where it can (:class:`ForkedAgent`), so that it shares its own imports too. torchrun would
start each rank by itself, print tracebacks, and kill ranks that need more than 30 seconds for a checkpoint.
"""

import atexit
import gc
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

from neuro_cli.core.errors import UserError
from neuro_cli.core.exit_codes import FAILED
from neuro_cli.core.machine import process
from neuro_cli.core.machine.process import die_with_parent, thread_count
from neuro_cli.factory.construct import TARGET
from neuro_cli.run_folder.identity import leaves

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
PATIENCE = 30  # seconds for the other ranks to end by themselves after one has failed
_THREADS = thread_count()  # numpy's alone, where a command imports this before it computes anything


class ForkedAgent:
    """Agent of ``words`` that is a fork of this process, with ``send_signal`` and ``wait`` as a Popen has them.

    ``number``: signal that it gets when this process ends.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], number: int) -> None:
        before, parent = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS), os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self._code: int | None = None
        self._pid = os.fork()
        if self._pid == 0:
            _end_after(partial(_agent_of, parent, number, environment, words))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def send_signal(self, number: int) -> None:
        if self._code is None:
            os.kill(self._pid, number)

    def wait(self) -> int:
        """Return the exit code of torch's agent, -N after signal N."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code


def may_fork() -> bool:
    """Return whether this is a command's own process that has computed nothing: a fork takes none of the other threads along."""
    return process.own and _THREADS is not None and thread_count() == _THREADS


def _agent_of(parent: int, number: int, environment: Mapping[str, str], words: Sequence[str]) -> int:
    """Let this fork be the agent that a process of its own would be."""
    atexit._clear()  # the command's
    os.setsid()
    die_with_parent(signal.Signals(number), parent)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(environment)
    return serve(words)


def _end_after(work: Callable[[], int]) -> NoReturn:
    """Do ``work`` in this fork and end with its exit code, as the code that called the fork is another process's."""
    code: int | str | None = FAILED
    try:
        code = work()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    with suppress(OSError):  # a reader that has gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(FAILED if isinstance(code, str) else code or 0)


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


def become(words: Sequence[str], own: dict[str, str], agent: int) -> int:
    """Run ``python -P WORDS`` in this fork, with the variables ``own``; SIGTERM comes when the process ``agent`` ends."""
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
    return 0


def ended(ranks: set[int]) -> int:
    """Wait for the agent's processes ``ranks``, and return the exit code of the first one that failed."""
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


def serve(words: Sequence[str]) -> int:
    """Run the agent's ranks of ``RANKS PYTHON -P ...`` to their end, and return the exit code of the first one that failed."""
    count, (python, alone, *words) = int(words[0]), words[1:]
    assert (python, alone) == (sys.executable, "-P")
    gc.disable()
    if words[:2] == ["-m", "neuro_cli"]:
        load(Path(words[3]))
    else:
        import_module("torch.distributed")  # once, not in each rank
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
            _end_after(partial(become, words, variables(rank, count, port), agent))
        ranks.add(pid)
    for number in STOPS:
        signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    return ended(ranks)


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
