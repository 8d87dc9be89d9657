"""Options and variables that make Open MPI's mpiexec start a world as MPICH's does, and forward a request to stop."""

import os
import signal
from collections.abc import Sequence

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.cores import usable_cores

# more ranks than cores are allowed: the user asked; and no rank is bound to one core, where its threads would share it
OPTIONS = ("--oversubscribe", "--bind-to", "none")

# mpiexec forwards this signal to the ranks; on SIGTERM and SIGINT it ends them, by SIGKILL after one second
STOP_SIGNAL = signal.SIGUSR1

ROOT_VARIABLES = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
ROOT_FIX = "export " + " ".join(f"{name}=1" for name in ROOT_VARIABLES)


def refuses_root() -> bool:
    """Return whether mpiexec will not run because the user is root and has not set the two variables."""
    return os.geteuid() == 0 and any(os.environ.get(name) != "1" for name in ROOT_VARIABLES)


def check_root(ranks: int) -> None:
    """Raise UserError when mpiexec will not run as root. Setting the variables is the user's own decision."""
    if refuses_root():
        raise UserError(f"ranks={ranks}: Open MPI's mpiexec does not run as root unless told to: {ROOT_FIX}")


def on_hosts(hosts: Sequence[str], interface: str, agent: Sequence[str]) -> list[str]:
    """Return the options for one rank on each of ``hosts``, reached by ``agent`` in place of ssh, daemons on ``interface``."""
    return [
        "--host", ",".join(f"{host}:1" for host in hosts),
        "--prtemca", "plm_ssh_agent", " ".join(agent),
        "--prtemca", "plm_ssh_no_tree_spawn", "1",
        "--prtemca", "oob_tcp_if_include", interface,
        "--prtemca", "prte_keep_fqdn_hostnames", "1",
    ]  # fmt: skip


def variables(ranks: int) -> dict[str, str]:
    """Return the environment of Open MPI's ``ranks`` ranks; with more ranks than cores, waiting ranks yield their core."""
    name = "OMPI_MCA_mpi_yield_when_idle"
    crowded = ranks > usable_cores()
    return {name: "1"} if crowded and name not in os.environ else {}
