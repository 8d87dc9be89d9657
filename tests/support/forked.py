"""Processes that begin as forks of a server that has imported torch and neuro: 3 s of a core less than a start of their own.

pytest-xdist's workers are forks too (:func:`workers_python`), and each has a server that is a fork of it.
:class:`Forked` is a ``subprocess.Popen`` of such a process. :func:`forking_python` is an interpreter for launchers: a small
program that asks the server for a process with its words, environment and descriptors, forwards signals, and ends with it.
What libraries read from the environment while they are imported (AT_IMPORT) is the server's in all of them.
"""

import atexit
import ctypes
import marshal
import os
import shutil
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NoReturn

from support.fork_server import AT_IMPORT, PATHS, answer

TESTS = Path(__file__).parents[1]
_PR_SET_CHILD_SUBREAPER = 36
_one_at_a_time = threading.Lock()
# it becomes Python where it has options, another environment or network than the server, or makes an emulated network
PYTHON = """#!{python} -IS
import marshal, os, signal, socket, sys
words = sys.argv[1:]
if words[:1] == ["-u"]:  # a worker of pytest-xdist flushes what it writes, and a job of submitit does at its end
    del words[0]
kind = (words + ["", ""])[words[:1] == ["-P"]]
at_import = {{
    name: value for name, value in os.environ.items()
    if name.startswith({names}) and not name.startswith({late}) and (name, value) != {mkl}
}}
emulates = any(word.startswith("neuro_cli.fabric.emulation") for word in words[:3])
alone = emulates or kind in ("", "-") or kind.startswith("-") and kind not in ("-m", "-c")
if alone or at_import != {at_import} or os.readlink("/proc/self/ns/net") != {network!r}:
    os.execv({python!r}, [{python!r}, *words])
numbers = [0, 1, 2, *(int(os.environ[name]) for name in ("PMI_FD",) if name in os.environ)]
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({socket!r})
request = {{"words": words, "cwd": os.getcwd(), "environment": dict(os.environ), "session": False, "numbers": numbers}}
request["executable"] = {executable!r}
socket.send_fds(server, [marshal.dumps(request)], numbers)
pid = int(server.recv(20))
def forward(number, frame):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT):
    signal.signal(number, forward)
code = int(server.recv(20) or "-9")
if code < 0:
    if code != -9:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class ForkServer:
    """Fork server of this process, with a folder for its socket and its interpreter.

    ``workers``: its forks are to have servers of their own. ``fork``: it is a fork of this process, not a start of its own.
    """

    def __init__(self, environment: dict[str, str] | None = None, workers: bool = False, fork: bool = False) -> None:
        self.folder, self.at_import, self._workers = Path(mkdtemp(prefix="forks")), dict[str, str](), workers
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.folder / "socket"))
        listener.listen(64)
        if fork:
            self._pid = os.fork()
            if self._pid == 0:
                self._serve(theirs, listener)
        else:
            numbers = [theirs.fileno(), listener.fileno()]
            words = [sys.executable, "-m", "support.fork_server", *map(str, numbers), *["workers"] * workers]
            self._pid = subprocess.Popen(words, cwd=TESTS, env=environment, pass_fds=numbers, process_group=0).pid
        theirs.close()
        listener.close()
        atexit.register(self._end)

    def _serve(self, client: socket.socket, listener: socket.socket) -> NoReturn:
        """Be the server, which has none of this process's files."""
        self._socket.close()
        os.setpgid(0, 0)  # no Ctrl-C
        with open(os.devnull, "r+b") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(nothing.fileno(), 1)
        answer(client, listener)

    def write_python(self, environment: dict[str, str]) -> None:
        """Write the interpreter whose processes are forks, where they have what ``environment`` sets for imports."""
        self.at_import = at_import(environment)
        executable = sys.executable if self._workers else str(self.folder / "python")
        text = PYTHON.format(
            python=sys.executable, names=AT_IMPORT, late=SET_LATE, mkl=MKL, at_import=self.at_import, executable=executable,
            socket=str(self.folder / "socket"), network=os.readlink("/proc/self/ns/net"),
        )  # fmt: skip
        self._write("python", text)
        if (mpiexec := Path(sys.executable).with_name("mpiexec")).exists():  # neuro looks for it next to Python
            self._write("mpiexec", f'#!/bin/sh\nexec "{mpiexec}" "$@"\n')

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """Return the process id of a new child of this process."""
        libc = ctypes.CDLL(None)
        with _one_at_a_time:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            socket.send_fds(self._socket, [marshal.dumps(request)], descriptors)
            answer = self._socket.recv(20)
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert answer, "the fork server has ended"
        return int(answer)

    def _end(self) -> None:
        self._socket.close()
        os.waitpid(self._pid, 0)
        shutil.rmtree(self.folder)


MKL = "MKL_NUM_THREADS", "1"  # what a worker of the broker sets along with OMP_NUM_THREADS, which MKL reads too
# a fork adds its own; our torch world sets the second, and the fork sets it again; torchrun says by the third which rank it
# starts; Open MPI's launcher sets the last, whose libraries know their folder
SET_LATE = (PATHS, "TORCH_CPP_LOG_LEVEL", "TORCHELASTIC_", "LD_LIBRARY_PATH")


def at_import(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that count while libraries are imported."""
    counts = {name: value for name, value in environment.items() if name.startswith(AT_IMPORT) and not name.startswith(SET_LATE)}
    return dict(counts.items() - {MKL})


_born_with: list[ForkServer] = []


def begin_servers_of_workers() -> None:
    """Give this fork, a worker of pytest-xdist, a server that has imported what it has."""
    _born_with.append(ForkServer(fork=True))


@cache
def own_server() -> ForkServer:
    """Return the server of this process, which begins with the first request."""
    from support.worlds import clean_environment

    server = _born_with[0] if _born_with else ForkServer(clean_environment())
    server.write_python(clean_environment())
    return server


def forking_python() -> str:
    """Return the path of an interpreter whose processes are forks of the server."""
    return str(own_server().folder / "python")


def ready_python() -> str:
    """Return that interpreter in a worker of pytest-xdist, which has a server; this process's own elsewhere."""
    return forking_python() if _born_with else sys.executable


@cache
def workers_python() -> str:
    """Return the path of an interpreter for pytest-xdist's workers: forks of one server, in this process's environment."""
    server = ForkServer(dict(os.environ), workers=True)
    server.write_python(dict(os.environ))
    return str(server.folder / "python")


class Forked(subprocess.Popen):
    """A ``subprocess.Popen`` of ``[sys.executable, ...]`` that is a fork. Raises AssertionError for another AT_IMPORT."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                       p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
                       start_new_session, process_group):  # fmt: skip
        environment = {name: str(value) for name, value in (os.environ if env is None else env).items()}
        assert args[0] == sys.executable
        assert not any((pass_fds, preexec_fn, shell))
        changed = at_import(environment).items() ^ own_server().at_import.items()
        assert not changed, f"this needs a start of its own, by subprocess.Popen: {changed}"
        request = {
            "words": [os.fspath(word) for word in args[1:]],
            "cwd": str(Path(cwd or ".").absolute()),
            "environment": environment,
            "session": start_new_session,
            "numbers": [0, 1, 2],
            "executable": str(own_server().folder / "python"),
        }
        theirs = [own if own != -1 else number for number, own in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = own_server().fork(request, theirs)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def run_forked(command: list[str], timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of ``sys.executable`` to its end as ``subprocess.run`` does, with the text of both outputs."""
    with Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
