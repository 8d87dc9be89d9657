"""Shared memory that ranks leave when they are killed: it stays until somebody removes it, or the machine starts again.

It is named, not removed: the names do not say whose world it was, and another of the same user may just be about to open its own.
"""

import os
from pathlib import Path

SHM, PROC = Path("/dev/shm"), Path("/proc")
NAMES = ("mpich_*", "sm_segment.*", "vader_segment.*")  # of MPICH, Open MPI 5 and 4


def left_since(when: float, shm: Path = SHM, proc: Path = PROC) -> list[Path]:
    """This user's segments that were made after the time ``when`` and that no process here has mapped."""
    found = []
    for path in (path for name in NAMES for path in sorted(shm.glob(name))):
        try:
            made = path.stat()
        except FileNotFoundError:
            continue
        if made.st_uid == os.geteuid() and made.st_mtime >= when:
            found.append(path)
    mapped = "".join(_maps(folder) for folder in proc.glob("[0-9]*")) if found else ""
    return [path for path in found if path.name not in mapped]


def _maps(process: Path) -> str:
    try:
        return (process / "maps").read_text(errors="replace")
    except OSError:  # it has ended, or is another user's
        return ""
