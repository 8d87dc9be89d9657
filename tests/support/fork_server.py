"""Program that has imported torch and neuro, and forks processes that run Python command lines, as ``python WORDS`` would.

    python -m support.fork_server CLIENT LISTENER [workers]    (from tests/, on a single thread)

A request is a message with the file descriptors of the new process: {"words": ["-m", "neuro_cli", "train"], "cwd": FOLDER,
"environment": {...}, "session": False, "numbers": [0, 1, 2]}. One of the socket CLIENT is answered by a process id, and the
process becomes a child of the next ancestor that is a subreaper. "executable" is its ``sys.executable``, by which it starts
processes that are forks too. Connections of LISTENER come from the program
:data:`support.forked.PYTHON`, which reads the process id, and the exit code at the end; a process is killed with its connection.
``workers``: each fork has a server of its own.
"""

import atexit
import ctypes
import gc
import importlib
import linecache
import marshal
import os
import random
import runpy
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NoReturn

# what `neuro train` has imported when the first generation begins
MODULES = (
    *("hydra._internal.utils", "matplotlib.pyplot", "numba", "sklearn.datasets", "torch", "torchvision"),
    *("neuro_cli.cli.verbs.train", "neuro_cli.runner.build", "neuro_cli.runner.loop", "neuro_cli.runner.load"),
    "neuro_cli.run_folder.plot",
)
# read by libraries while they are imported: a process with other values needs a start of its own
AT_IMPORT = ("OMP_", "MKL_", "KMP_", "NUMBA_", "OPENBLAS_", "GOMP_", "TORCH", "PYTHON", "LD_", "MPLBACKEND", "LC_", "LANG")
PATHS = "PYTHONPATH"  # a fork adds its own
SPARE = 200  # file descriptors of the server are below
Request = tuple[dict[str, Any], list[int]]


class Server:
    """``client`` asks for its own children, connections of ``listener`` for processes that live as long as they do."""

    def __init__(self, client: socket.socket, listener: socket.socket) -> None:
        self._client, self._listener = client, listener
        self._connections: dict[int, tuple[socket.socket, int]] = {}
        self._ends: dict[int, tuple[socket.socket, int]] = {}

    def serve(self) -> Request:
        """Answer requests until the client ends; return a request in the process that is to run it."""
        while True:
            watched = [self._client, self._listener, *self._connections, *self._ends]
            for ready in select.select(watched, (), ())[0]:
                if ready is self._client:
                    request = self._child_of_client()
                elif ready is self._listener:
                    request = self._process_of(self._listener.accept()[0])
                else:
                    self._ended(ready)
                    continue
                if request is not None:
                    return request

    def _child_of_client(self) -> Request | None:
        text, descriptors, _, _ = socket.recv_fds(self._client, 1 << 20, 8)
        if not text:
            os._exit(0)
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            own = os.getpid()
            if new := os.fork():
                os.write(writing, str(new).encode())
                os._exit(0)
            while os.getppid() == own:  # until the kernel has given it to the client
                time.sleep(0.0002)
            return marshal.loads(text), descriptors
        os.waitpid(between, 0)
        self._client.send(os.read(reading, 20))
        for descriptor in (reading, writing, *descriptors):
            os.close(descriptor)
        return None

    def _process_of(self, connection: socket.socket) -> Request | None:
        text, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 8)
        if not text:
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)  # it is killed with what it starts
            return marshal.loads(text), descriptors
        connection.send(str(pid).encode())
        self._connections[connection.fileno()] = self._ends[os.pidfd_open(pid)] = connection, pid
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _ended(self, ready: int) -> None:
        """Report the end of a process; or kill one whose connection has ended."""
        if ready in self._ends:
            connection, pid = self._ends.pop(ready)
            os.close(ready)
            status = os.waitpid(pid, 0)[1]
            if self._connections.pop(connection.fileno(), None):
                connection.send(str(os.waitstatus_to_exitcode(status)).encode())
                connection.close()
        elif ready in self._connections:
            connection, pid = self._connections.pop(ready)
            os.killpg(pid, signal.SIGKILL)
            connection.close()


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Let this fork be what a new process with the request's settings is."""
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, SPARE + place)
    os.closerange(3, SPARE)
    for place, number in enumerate(request["numbers"]):
        os.dup2(SPARE + place, number)
        os.close(SPARE + place)
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    sys.executable = request["executable"]
    os.environ.clear()
    os.environ.update(request["environment"])
    paths = os.environ.get(PATHS, "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    sys.modules["numpy"].random.seed()
    importlib.invalidate_caches()
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115 (as long as the process)
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


def run(words: list[str]) -> None:
    """Run ``-m MODULE``, ``-c CODE`` or a file, each with its arguments."""
    safe, words = words[0] == "-P", words[words[0] == "-P" :]
    kind = words[0]
    if not safe:
        sys.path.insert(0, {"-m": os.getcwd(), "-c": ""}.get(kind, os.path.dirname(os.path.abspath(kind))))
    if kind == "-m":
        spec = find_spec(words[1])
        assert spec is not None
        sys.argv = [str(spec.origin).replace("__init__", "__main__"), *words[2:]]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *words[2:]]
        if sys.version_info >= (3, 13):  # its tracebacks show the lines of -c
            linecache.cache["<string>"] = (len(words[1]), None, words[1].splitlines(keepends=True), "<string>")
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    else:
        sys.argv = words
        runpy.run_path(kind, run_name="__main__")


def end_with(words: list[str]) -> NoReturn:
    """Run a command line and end as Python does, without the teardown of all modules, which takes 0.6 s."""
    code: Any = 0
    try:
        run(words)
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException as error:
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        trace = error.__traceback__
        sys.excepthook(type(error), error.with_traceback(trace and trace.tb_next and trace.tb_next.tb_next), None)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()  # as mpi4py does in the teardown
        ctypes.PyDLL(None).exit(code & 0xFF)  # with the functions that libraries run at the end: MPICH tells its launcher there
    os._exit(code & 0xFF)


def warm() -> None:
    """Do what the first run of a process does: load Hydra's plugins and the machine code of common loops, ask git."""
    import torch
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.plugins import Plugins

    import neuro_cli as neuro
    from neuro_cli.run_folder.summary import git_revision

    git_revision()
    Plugins.instance()
    OverridesParser.create().parse_override("seed=1")
    inputs, targets = torch.zeros(8, 64), torch.arange(8)
    for sampler in ("antithetic", "sign_flip", "low_rank"):
        with neuro.Evolution(torch.nn.Linear(64, 8), sampler=sampler, population=8, threads=1) as es:
            es.step(lambda module, x, y: -torch.nn.functional.cross_entropy(module(x), y, reduction="none"), inputs, targets)


def answer(client: socket.socket, listener: socket.socket, begin: Callable[[], None] = lambda: None) -> NoReturn:
    """Serve; a fork calls ``begin`` on its only thread and runs the command line of its request."""
    request, descriptors = Server(client, listener).serve()
    become(request, descriptors)
    begin()
    end_with(request["words"])


def main() -> None:
    client, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    begin = importlib.import_module("support.forked").begin_servers_of_workers if sys.argv[3:] else lambda: None
    for name in MODULES:
        importlib.import_module(name)
    warm()
    del sys.path[0]  # the folder in which the server began
    assert len(os.listdir("/proc/self/task")) == 1, "a fork takes one thread along"
    gc.collect()
    gc.freeze()  # no search goes through what is shared, which would copy it
    answer(client, listener, begin)


if __name__ == "__main__":
    main()
