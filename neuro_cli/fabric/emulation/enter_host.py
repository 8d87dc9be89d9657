"""Agent between a launcher and its ranks: moves this process to an emulated host, then executes a program.

    mpiexec -n N python -m neuro_cli.fabric.emulation.enter_host PROGRAM...        rank R lives on host R
    python -m neuro_cli.fabric.emulation.enter_host [-x] 10.77.0.K COMMAND...      in place of ssh

It runs before MPI starts, whose library must see only the host's network.
"""

import os
import sys
from collections.abc import Sequence

from neuro_cli.fabric.emulation import HOSTS
from neuro_cli.fabric.emulation.hosts import address, become_host
from neuro_cli.fabric.mpi import RANK_VARIABLES


def placed(arguments: Sequence[str], ranks: Sequence[str], hosts: int) -> tuple[int, list[str]]:
    """Return the host and the command that ``arguments`` ask for; ``ranks``: values of the launchers' rank variables."""
    if ranks:
        return int(ranks[0]), list(arguments)
    words = [word for word in arguments if not word.startswith("-")] if arguments[0].startswith("-") else list(arguments)
    number = [address(host) for host in range(hosts)].index(words[0])
    return number, ["sh", "-c", " ".join(words[1:])]


def main() -> None:
    hosts = os.environ[HOSTS].split(":")
    ranks = [os.environ[name] for name in RANK_VARIABLES if name in os.environ]
    number, command = placed(sys.argv[1:], ranks, len(hosts))
    descriptor = os.open(hosts[number], os.O_RDONLY)
    become_host(descriptor, number)
    os.close(descriptor)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
