"""Lock of a run folder: `neuro train`, `resume`, `search` and `evolve` take it before they write, so one command works at a time.

The lock is flock's, on the file ``.lock`` of the folder: the system drops it with the process, however that ends. A command
that works by itself, or as rank 0 of a world that a user's mpiexec or srun started, holds it alone. With ``ranks=N`` the
command that starts the world shares it with rank 0, so that it stays until the last of the two has ended: killing the
command alone leaves ranks that still write their checkpoint. On NFS the server keeps it, for all machines; where a file system
has no locks the command warns and continues. A job that SLURM started again waits for it, since a server may take
a while to see that a lost node holds it no longer.
"""

import fcntl
import logging
import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import refuse_link
from neuro_cli.launch.restarts import restarts

log = logging.getLogger(__name__)

LOCK = ".lock"
WAIT = 180.0  # seconds that a job waits for the lock when SLURM has started it again: a lease of NFS is 90 s by default
# variable of ranks that we launch: one without an MPI world must not launch another
STARTED = "NEURO_WORLD_STARTED"
# files of a run folder that commands write; other names are the user's own
_FILES = re.compile(
    r".*\.(csv|txt|json|png|html|bin|safetensors|tmp)|\.lock|secret|\.hydra|checkpoints|best|weights|peers|tensorboard|wandb|mlflow|comet"
)
_FOLDERS = (".hydra", "checkpoints", "checkpoints/last_step", "best", "weights", "peers", "mlflow", "comet")

_held: dict[Path, int] = {}
_created: dict[Path, list[Path]] = {}  # folders that were created for a lock, inner ones first


def launched_by_us() -> bool:
    """Return whether ``ranks=N`` started this process, as the lock's variable says."""
    return bool(os.environ.get(STARTED))


def take(run: Path) -> None:
    """Take the lock of the folder ``run`` for this process, which may have it already.

    Raises UserError, without having written anything, when another command works there, or when files that would be written
    are symbolic links in the folder.
    """
    run = run.resolve()
    if run in _held:
        return
    _refuse_links(run)
    kind = fcntl.LOCK_SH if launched_by_us() else fcntl.LOCK_EX
    deadline = time.monotonic() + (WAIT if restarts() else 0.0)
    while True:
        handle = _open(run)
        if _locked(run, handle, kind):
            if _is_there(run, handle):
                break
            os.close(handle)  # removed while we opened it: a command that never began has given the folder up
            continue
        holder = _holder(handle)
        os.close(handle)
        if time.monotonic() >= deadline:
            raise UserError(f"{run}: another command works on this run{holder}; wait for it, or end it")
        time.sleep(1.0)
    if kind == fcntl.LOCK_EX:
        with suppress(OSError):  # a full disk: the lock works without the holder's name
            os.truncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
    _held[run] = handle


def is_taken(run: Path) -> bool:
    """Return whether another command holds the lock of ``run``. Nothing is written."""
    try:
        handle = os.open(run / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not _locked(run, handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def share(run: Path) -> None:
    """Share the lock with the ranks that this process starts. Raises UserError when another command was faster."""
    run = run.resolve()
    if run in _held and not _locked(run, _held[run], fcntl.LOCK_SH):
        os.close(_held.pop(run))
        raise UserError(f"{run}: another command works on this run; wait for it, or end it")


def holds(run: Path) -> bool:
    """Return whether this process has the lock of ``run``, and the folder is still the one that it took."""
    run = run.resolve()
    return run in _held and _is_there(run, _held[run])


def drop(run: Path | None = None, remove: bool = False) -> None:
    """Release the lock of ``run``, by default all locks of this process.

    ``remove``: the run never began. So did a run that has written nothing but its lock.
    """
    for folder in list(_held) if run is None else [run.resolve()]:
        handle, created = _held.pop(folder, None), _created.pop(folder, [])
        if handle is None:
            continue
        with suppress(OSError):
            # another command's folder may have the name of one that was moved or removed
            if _is_there(folder, handle) and (remove or (created and os.listdir(folder) == [LOCK])):
                (folder / LOCK).unlink(missing_ok=True)
                for path in created:
                    path.rmdir()
        os.close(handle)


def _open(run: Path) -> int:
    path = run / LOCK
    try:
        _created.setdefault(run, [folder for folder in (run, *run.parents) if not folder.exists()])
        run.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error


def _locked(run: Path, handle: int, kind: int) -> bool:
    """Return whether the lock was acquired, True also where the file system has no locks."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        log.warning("%s: no locks on this file system (%s): make sure that no second command works there", run, error.strerror)
    return True


def _is_there(run: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), (run / LOCK).stat())
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    """Return a clause that names the process with the lock."""
    words = os.pread(handle, 300, 0).decode(errors="replace").split()
    return f" (process {words[0]} on {words[1]})" if len(words) == 2 and words[0].isdigit() else ""


def _refuse_links(run: Path) -> None:
    for folder in (run, *(run / name for name in _FOLDERS)):
        if folder.is_dir() and not folder.is_symlink():
            for path in sorted(folder.iterdir()):
                if folder != run or _FILES.fullmatch(path.name):
                    refuse_link(path)
