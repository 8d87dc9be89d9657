"""``summary.json``: a run's results, and what computed them."""

import hashlib
import json
import logging
import math
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from torch import Tensor

from neuro_cli.core.files import save_file
from neuro_cli.core.layout import STORED
from neuro_cli.core.version import __version__

log = logging.getLogger(__name__)

HASHED = 2**24  # parameters hashed at once

# scripts read these by name: every run has them, null where it has no such thing
SUMMARY_KEYS = (
    "generations",
    "wall_seconds",
    "candidates_per_second",
    "peak_memory_bytes",
    "parameters",
    "parameters_sha256",
    "ranks",
    "device",
    "versions",
    "git_revision",
)


def write_summary(path: Path, fields: dict[str, Any]) -> None:
    """Write ``fields`` as JSON, atomically, with null for keys of ``SUMMARY_KEYS`` that it lacks. Raises UserError."""
    ordered = fields | {key: fields.get(key) for key in SUMMARY_KEYS}
    for key, value in ordered.items():
        if isinstance(value, float) and not math.isfinite(value):
            log.warning("%s: %s is %s, which JSON cannot represent: written as null", path.name, key, value)
            ordered[key] = None
    save_file(path, json.dumps(ordered, indent=2, allow_nan=False) + "\n")


def versions(mpi: str | None = None, packages: Iterable[str] = ()) -> dict[str, str | None]:
    """Return versions by name: Python, neuro, the numeric packages, the installed ones of ``packages``.

    ``mpi``: name of the MPI library.
    """
    numeric = {package: _installed(package) for package in ("torch", "numpy", "numba")}
    more = {package: number for package in packages if package not in numeric and (number := _installed(package))}
    return {"python": platform.python_version(), "neuro": __version__, **numeric, **more, "mpi": mpi}


@cache  # files are read twice a run, and imported packages do not change
def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache  # the code was imported once, and git looks at every file
def git_revision() -> str | None:
    """Return the commit of the running checkout, with ``-dirty`` when files differed from it when a process first asked.

    None outside a checkout.
    """
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():  # an installed package may lie in somebody else's repository
        return None
    # a hook of git has these set, and they point to its own repository
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.info("the revision of %s is unknown: %s", checkout, error)
        return None
    if asked.returncode:
        log.info("the revision of %s is unknown: %s", checkout, " ".join(asked.stderr.split()))
        return None
    return asked.stdout.strip()


def peak_memory_bytes() -> int:
    """Return the peak resident memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # rusage starts at the peak of the parent process
        line = next((line for line in status.read_text().splitlines() if line.startswith("VmHWM")), None)
        if line is not None:
            return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def parameters_sha256(parameters: Tensor) -> str:
    """Return the SHA-256 of the little-endian float32 bytes of a flat vector (M,), float32 or bfloat16.

    Raises ValueError for another tensor.
    """
    if parameters.dtype not in STORED or parameters.ndim != 1:
        raise ValueError(f"a flat vector of float32 or bfloat16 is hashed, not {parameters.dtype} {tuple(parameters.shape)}")
    digest = hashlib.sha256()
    for piece in parameters.detach().split(HASHED):
        digest.update(piece.float().cpu().contiguous().numpy().astype("<f4", copy=False))
    return digest.hexdigest()
