"""Files of the current folder that libraries read unasked when they are loaded. Their settings can choose the code that runs.

None of the libraries can switch this off, so a folder with such a file is refused before they are loaded.
"""

import os
import sys
from collections.abc import Collection
from pathlib import Path

from neuro_cli.core.errors import UserError

USER_VARIABLE = "NEURO_TRUST"  # packages that the user would pass as trust= to every command

# folders below a library's search path in which the system's loader looks as well
_VARIANTS = ("", "tls/**/", "x86_64/**/", "aarch64/**/", "glibc-hwcaps/**/", "haswell/**/", "avx512_1/**/", "xeon_phi/**/")
# pattern of the files; the library, by the name under which a user trusts it; what it takes from there
READ = {
    ".numba_config.yaml": ("numba", "settings, and the place of its cache, which it unpickles,"),
    "ucx.conf": ("ucx", "settings of MPI's network, and the place of its modules,"),  # read by the UCX of MPICH and Open MPI
    # libcusparseLt of torch's CUDA packages searches the current folder: its run path ends in an empty part
    **{f"{folder}libcuda.so.1": ("cuda", "code in place of the driver's") for folder in _VARIANTS},
}


def refuse_settings(trust: Collection[str] = ()) -> None:
    """Raise UserError where the current folder has a file of ``READ`` of a library that neither ``trust`` nor the user names."""
    trusted = {*trust, *trusted_by_user()}
    for pattern, (library, what) in READ.items():
        found = None if library in trusted else next(Path().glob(pattern), None)
        if found is not None:
            raise UserError(f"{found}: {library} would take {what} from the current folder; {advice(library)}")


def advice(library: str) -> str:
    """Clause that says what to do about a file of the current folder that ``library`` would read."""
    return f"move the file away, work in another folder, or, if it is yours, set {USER_VARIABLE}={library}"


def trusted_by_user() -> list[str]:
    """Return the packages, separated by commas in the environment, that the user trusts in every folder."""
    return [name.strip() for name in os.environ.get(USER_VARIABLE, "").split(",") if name.strip()]


def importable() -> bool:
    """Return whether packages of the current folder may be imported. Its user named it or works there; rank 0 decides for all."""
    return str(Path.cwd()) in sys.path
