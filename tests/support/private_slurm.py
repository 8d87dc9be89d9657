"""A private SLURM of this machine, started by the script that users have too."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.worlds import clean_environment, own_mpi

SCRIPT = Path(__file__).parents[2] / "scripts" / "slurm_local.sh"


def started(state: Path, cpus: int, nodes: int) -> Iterator[dict[str, str]]:
    """Start a SLURM, whose environment this yields, and end it afterwards."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in ("slurmctld", "slurmd", "munged") if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: apt-get install --no-install-recommends slurm-wlm munge")
    if find_spec("submitit") is None:
        pytest.skip("no submitit: pip install '.[slurm]'")
    if own_mpi().missing:
        pytest.skip(own_mpi().missing)
    environment = clean_environment() | {
        "SLURM_LOCAL": str(state),
        "SLURM_LOCAL_CPUS": str(cpus),
        "SLURM_LOCAL_NODES": str(nodes),
    }
    begun = subprocess.run([SCRIPT, "start"], env=environment, capture_output=True, text=True, timeout=120)
    if begun.returncode and os.getuid():
        pytest.skip(f"SLURM does not start for a user who is not root: {begun.stderr}")
    assert begun.returncode == 0, begun.stderr
    for line in begun.stdout.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        environment[name] = shlex.split(value, comments=True)[0].replace("$PATH", environment["PATH"])
    yield environment
    subprocess.run([SCRIPT, "stop"], env=environment, capture_output=True, text=True, timeout=120, check=True)
