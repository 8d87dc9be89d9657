"""Child processes: they end with this one, are asked to end, and are killed if they do not.

    python -P -S .../core/machine/process.py SIGNAL PARENT COMMAND...

replaces itself with COMMAND, which then gets SIGNAL when the process PARENT ends. Popen's preexec_fn could say the same to the
kernel, but makes Popen fork where it would vfork: a fork of a process with threads may wait for ever for a lock that one of them
held, and one with gRPC's threads is aborted by the handlers that gRPC has for it.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PAGE = os.sysconf("SC_PAGE_SIZE")

own = False  # whether this process is a command's, not a user's script


def libc_call(name: str, *arguments: int | bytes | None) -> None:
    """Call a function of libc that returns 0. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def die_with_parent(number: int, parent: int | None = None) -> None:
    """Get signal ``number`` when the parent ends, whatever ends it; now, if it has ended already. Only Linux has that.

    ``parent``: process id of the parent where it is known; without it, one that ended before this call goes unnoticed.
    The kernel watches the parent's thread, so the thread that starts a process must outlive it.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid() if parent is None else parent
    libc_call("prctl", _PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def start(command: Sequence[str], on_parent_death: int = signal.SIGTERM, **options: Any) -> "subprocess.Popen[Any]":
    """Start a process in a session of its own that gets ``on_parent_death`` when this one ends. ``options``: those of Popen.

    A session, because Ctrl-C in a terminal reaches all processes of the terminal's: it is this process that ends the others.
    """
    return subprocess.Popen(ended_with_us(command, on_parent_death), start_new_session=True, **options)


def ended_with_us(command: Sequence[str], number: int) -> list[str]:
    """Return the command line of ``command`` as a process that gets signal ``number`` when this one ends."""
    return [sys.executable, "-P", "-S", __file__, str(int(number)), str(os.getpid()), *command]


def stop(*processes: "subprocess.Popen[Any]", patience: float, ask: bool = True) -> list[int]:
    """End processes of :func:`start`: SIGTERM, and SIGKILL for the process group after ``patience`` seconds.

    ``ask=False``: they end by themselves, without SIGTERM. Closes their pipes. Returns exit codes, -N for signal N.
    """
    for process in processes:
        if ask and process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + patience
    return [_waited(process, deadline) for process in processes]


def _waited(process: "subprocess.Popen[Any]", deadline: float) -> int:
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        kill_group(process.pid)
        process.kill()  # had it left its group
        code = process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):  # input that it no longer reads
                pipe.close()
    return code


def kill_group(leader: int) -> None:
    """Kill a process that leads a group of its own, and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def exit_text(code: int) -> str:
    """Return words for an exit code: ``signal SIGSEGV``, ``exit code 3``."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal between the first and the last
        return f"signal {-code}"


def last_line(terminal: Path) -> str:
    """Return the last line with text that a process wrote to ``terminal``; empty where there is none."""
    return next((line for line in reversed(terminal.read_text(errors="replace").splitlines()) if line.strip()), "")


def thread_count() -> int | None:
    """Return the number of threads of this process, libraries' too; None where /proc does not say."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return None


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and its descendants in bytes; 0 where /proc does not say."""
    total = 0
    try:
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(resident_bytes(int(child)) for child in children.read_text().split())
    except (OSError, IndexError, ValueError):
        pass  # the process has ended meanwhile
    return total


def main() -> None:
    """Become the process that :func:`ended_with_us` starts."""
    number, parent, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    die_with_parent(number, parent)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and a command would inherit that
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
