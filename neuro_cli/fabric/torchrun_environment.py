"""Place that a launcher of torch.distributed gives a process by its environment, and the store where its ranks meet.

torchrun, ``python -m torch.distributed.run`` and ``accelerate launch`` set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; below
srun MASTER_ADDR and MASTER_PORT are enough. torch is imported when ranks meet.
"""

import ipaddress
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.fabric.mpi import RANK_VARIABLES
from neuro_cli.fabric.mpi import launched as mpi_launched

TORCHRUN = "TORCHELASTIC_RUN_ID"  # variable of every process of torchrun and of torch.distributed.run
AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"  # True: the launcher has the store, else rank 0 has it
RESTARTS = "TORCHELASTIC_RESTART_COUNT"
MEETING = "NEURO_MEETING_SECONDS"  # seconds to wait for all ranks
PATIENCE = 300.0
RETRY = 0.2  # seconds between two tries to reach a store


@dataclass(frozen=True)
class TorchPlace:
    """Rank ``rank`` of ``size``, whose ranks meet at ``address``:``port``."""

    rank: int
    size: int
    address: str
    port: int

    @property
    def one_machine(self) -> bool:
        """Return whether all ranks are known to be on this machine."""
        return os.environ.get("LOCAL_WORLD_SIZE") == str(self.size) or _is_loopback(self.address)


def torch_launched(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a launcher of torch.distributed started this process as one of several; MPI's launchers come first."""
    if mpi_launched() and not _disagrees(environment):
        return False
    several = environment.get("WORLD_SIZE", "") != "1"
    named = {"RANK", "WORLD_SIZE"} & environment.keys()
    meets = {"MASTER_ADDR", TORCHRUN} & environment.keys()
    return several and (len(named) == 2 or bool(named and meets) or _srun_meets(environment))


def torch_place(environment: Mapping[str, str] = os.environ) -> TorchPlace:
    """Return the place of this process. Raises ConfigError for a missing or bad variable, UserError for two launchers."""
    if mpi_launched():
        mpi = next((name for name in RANK_VARIABLES if name in environment), "PMI_SIZE")
        raise UserError(
            f"{mpi}={environment.get(mpi)} of an MPI launcher and RANK={environment.get('RANK')} of torchrun differ: start ranks "
            "with one of them; srun --mpi=none torchrun, or env -u PMI_RANK -u PMI_SIZE torchrun, hides MPI's"
        )
    size, rank = ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID") if _srun_meets(environment) else ("WORLD_SIZE", "RANK")
    ranks = _number(environment, size, 1)
    return TorchPlace(
        _number(environment, rank, 0, ranks - 1),
        ranks,
        _text(environment, "MASTER_ADDR"),
        _number(environment, "MASTER_PORT", 1, 65535),
    )


def restarts() -> int:
    """Return how often torchrun has started the ranks again (``--max-restarts``)."""
    count = os.environ.get(RESTARTS, "0")
    return int(count) if TORCHRUN in os.environ and count.isdigit() else 0


def meeting_seconds() -> float:
    """Return the seconds to wait for all ranks. Raises ConfigError."""
    text = os.environ.get(MEETING, str(PATIENCE))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < 1e6:
        raise ConfigError(MEETING, text, "must be seconds above 0 and below 1e6")
    return seconds


def met(place: TorchPlace) -> Any:
    """Return the store at which all ranks of ``place`` have met. Raises UserError for a port in use and for absent ranks."""
    seconds = meeting_seconds()
    from torch.distributed import PrefixStore

    # torchrun may give ranks that it starts again the store of those that have ended, with their keys
    store, deadline = PrefixStore(f"neuro/{restarts()}", _store(place, seconds)), time.monotonic() + seconds
    names = [f"rank/{rank}" for rank in range(place.size)]
    store.set(names[place.rank], "here")
    while not store.check(names):
        if time.monotonic() > deadline:
            missing = [rank for rank, name in enumerate(names) if not store.check([name])]
            raise _late(place, f"rank {', '.join(map(str, missing))} of {place.size} did not come", seconds)
        time.sleep(0.01)
    return store


def _store(place: TorchPlace, seconds: float) -> Any:
    from torch.distributed import DistError, TCPStore, rendezvous

    timeout = timedelta(seconds=seconds)
    hosts = place.rank == 0 and os.environ.get(AGENT_STORE) != "True"
    if hosts:
        _resolved(place)  # torch would print traces of C++
    else:
        _await_port(place, seconds)
    try:
        if os.environ.get(AGENT_STORE) == "True":
            return next(iter(rendezvous("env://", place.rank, place.size, timeout=timeout)))[0]
        # torch binds its store to all interfaces; a socket of ours keeps one machine's store to that machine
        listening = _listening(place) if hosts and _is_loopback(place.address) else None
        options: dict[str, Any] = {} if listening is None else {"master_listen_fd": listening.detach()}
        return TCPStore(
            place.address,
            place.port,
            place.size,
            hosts,
            timeout=timeout,
            wait_for_workers=False,
            multi_tenant=listening is None,
            **options,
        )
    except DistError as error:
        if "EADDRINUSE" in str(error):
            raise _in_use(place) from error
        raise UserError(f"MASTER_ADDR={place.address}, MASTER_PORT={place.port}: {str(error).splitlines()[0]}") from error


def _listening(place: TorchPlace) -> socket.socket:
    family, kind, protocol, _, address = _resolved(place)
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        raise _in_use(place) from error
    listening.listen(place.size + 16)
    return listening


def _resolved(place: TorchPlace) -> Any:
    try:
        return socket.getaddrinfo(place.address, place.port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(
            "MASTER_ADDR", place.address, f"must be the name or address of rank 0's machine ({error.strerror})"
        ) from error


def _in_use(place: TorchPlace) -> UserError:
    return ConfigError("MASTER_PORT", place.port, f"another program listens on {place.address}; choose a free port")


def _await_port(place: TorchPlace, seconds: float) -> None:
    """Wait until somebody listens: torch's own wait prints traces of C++."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((place.address, place.port), timeout=max(deadline - time.monotonic(), RETRY)).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise _late(place, f"nobody listens ({error.strerror or error})", seconds) from error
        time.sleep(RETRY)


def _late(place: TorchPlace, what: str, seconds: float) -> UserError:
    where = f"MASTER_ADDR={place.address}, MASTER_PORT={place.port}"
    return UserError(f"{where}: {what} within {seconds:g} s; start all ranks, or give them more time by {MEETING}")


def _is_loopback(address: str) -> bool:
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _srun_meets(environment: Mapping[str, str]) -> bool:
    """Return whether srun without MPI started several processes that know where to meet."""
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "")
    return "RANK" not in environment and "MASTER_ADDR" in environment and tasks.isdigit() and int(tasks) > 1


def _disagrees(environment: Mapping[str, str]) -> bool:
    """Return whether torchrun's ranks run below an MPI launcher that counts others."""
    rank = next((environment[name] for name in RANK_VARIABLES if name in environment), None)
    size = environment.get("PMI_SIZE", environment.get("OMPI_COMM_WORLD_SIZE"))
    several = environment.get("WORLD_SIZE", "1") != "1"
    return TORCHRUN in environment and several and (rank != environment.get("RANK") or size != environment["WORLD_SIZE"])


def _text(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise ConfigError(
            name, value or "not set", "a launcher of torch.distributed sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
        )
    return value


def _number(environment: Mapping[str, str], name: str, low: int, high: int = 2**31 - 1) -> int:
    value = _text(environment, name)
    if not value.isdigit() or not low <= int(value) <= high:
        raise ConfigError(name, value, f"must be an integer in [{low}, {high}], as a launcher of torch.distributed sets it")
    return int(value)
