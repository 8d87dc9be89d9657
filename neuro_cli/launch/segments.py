"""Shared memory that killed ranks leave, which stays until somebody removes it or the machine restarts.

The files are reported, not removed: their names do not say whose world it was, and another one may be about to open its own.
"""

import os
from pathlib import Path

SHM, PROC = Path("/dev/shm"), Path("/proc")
NAMES = ("mpich_*", "sm_segment.*", "vader_segment.*")  # names that MPICH, Open MPI 5 and Open MPI 4 give


def left_since(when: float, shm: Path = SHM, proc: Path = PROC) -> list[Path]:
    """Return this user's segments that were created after the time ``when`` and that no process has mapped."""
    left = []
    for path in (path for name in NAMES for path in sorted(shm.glob(name))):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if status.st_uid == os.geteuid() and status.st_mtime >= when:
            left.append(path)
    mapped = "".join(_maps(folder) for folder in proc.glob("[0-9]*")) if left else ""
    return [path for path in left if path.name not in mapped]


def _maps(process: Path) -> str:
    try:
        return (process / "maps").read_text(errors="replace")
    except OSError:  # the process has ended, or is another user's
        return ""
