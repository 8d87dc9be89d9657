"""Control groups of this process: where the system keeps the limits of a container, a service or a job."""

from pathlib import Path, PurePosixPath

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def groups(controller: str, root: Path = ROOT, own: Path = OWN) -> list[Path]:
    """Return folders of the groups by which ``controller`` (cpu, memory) may limit this process: its own and their parents.

    Of version 2, of version 1, or of both side by side. In a container the innermost that are seen may be the roots.
    """
    lines = own.read_text().splitlines() if own.exists() else []
    inside = [(root, PurePosixPath()), (root / controller, PurePosixPath())]
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers and controller not in controllers.split(","):
            continue
        mounts = (root / controllers, root / controller) if controllers else (root, root / "unified")
        inside += [(mount, PurePosixPath(path.strip("/"))) for mount in mounts]
    return list(dict.fromkeys(mount / part for mount, inner in inside for part in (inner, *inner.parents)))


def numbers(path: Path) -> list[float]:
    """Return the numbers in a file of a group; infinity for the word max, none for a missing file or other words."""
    try:
        return [float("inf") if word == "max" else float(word) for word in path.read_text().split()]
    except (OSError, ValueError):
        return []
