"""Small /dev/shm, as containers have it: variables by which an MPI library does with what is free there."""

import logging
import math
import os
import tempfile

from neuro_cli.core.errors import ConfigError

log = logging.getLogger(__name__)

PLACE = "/dev/shm"
MPICH_BYTES = 1.1e6  # bytes of a rank of MPICH 5.0.2, wherever UCX has its buffers
UCX_BYTES = 5.6e6  # bytes with the buffers of UCX
UCX_SPARE = 17e6  # bytes that UCX asks for at a time; between all and none of it, ranks end by SIGSEGV
OPENMPI_BYTES = 17e6  # bytes of a rank of Open MPI 5.0.11


def variables(kind: str, ranks: int) -> dict[str, str]:
    """Return what to set for ``ranks`` ranks of the MPI ``kind`` with this /dev/shm. Raises ConfigError for too little of it."""
    free = _free()
    if kind == "openmpi" and ranks * OPENMPI_BYTES > free:
        return _instead(free, "OMPI_MCA_btl_sm_backing_directory", tempfile.gettempdir())
    if kind == "mpich" and ranks * UCX_BYTES + UCX_SPARE > free:
        if ranks * MPICH_BYTES > free:
            need = f"MPICH needs {ranks * MPICH_BYTES / 1e6:.1f} MB of {PLACE}, where {free / 1e6:.1f} MB are free"
            raise ConfigError("ranks", ranks, f"{need}; docker run --shm-size, or fabric=gloo, which needs none")
        return _instead(free, "UCX_TLS", "^posix")
    return {}


def _instead(free: float, name: str, value: str) -> dict[str, str]:
    if name in os.environ:  # the user's choice
        return {}
    log.info("%s has %.0f MB: %s=%s", PLACE, free / 1e6, name, value)
    return {name: value}


def _free() -> float:
    """Return the free bytes of ``/dev/shm``; infinity without it."""
    try:
        about = os.statvfs(PLACE)
    except OSError:
        return math.inf
    return float(about.f_bavail * about.f_frsize)
