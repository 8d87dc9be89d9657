"""Network of a world: name, cost model, MPI settings that select it, and emulation on one machine."""

import logging
import os
from collections.abc import Mapping
from typing import Any

from neuro_cli.core.checks import boolean, number, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.bare_srun import foreign_start
from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.fabric.cost import Cost, CostModel
from neuro_cli.fabric.emulation import HOSTS, PORT
from neuro_cli.fabric.mpi import mpi_world
from neuro_cli.fabric.start import launched, launched_world

log = logging.getLogger(__name__)

MPI, TORCHRUN = "mpi", "torchrun"  # what starts ranks
EMULATED_RATE = 10e9  # bit/s; a user-space switch on the ranks' processors carries little more
# variables that choose the interface: UCX and libfabric (MPICH), Open MPI
_INTERFACE = ("UCX_NET_DEVICES", "FI_TCP_IFACE", "OMPI_MCA_btl_tcp_if_include")
# ranks of emulated hosts must not notice that they share a machine: sockets only, one rank a node
_SOCKETS = {
    "UCX_TLS": "tcp,self",
    "FI_PROVIDER": "tcp",
    "MPIR_CVAR_NOLOCAL": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "tcp,self",
}


class Network:
    """Network of ranks. ``rate``: bit/s of a rank's link, each way; ``latency``: seconds, one way; None: the launcher's network.

    ``environment``: variables of MPI libraries for worlds that neuro starts. ``interface``: network interface for MPI.
    ``cost``: the cost model; None: measured when needed. ``launcher``: what ``ranks=N`` starts: mpi | torchrun.
    """

    def __init__(
        self,
        name: str,
        rate: float | None = None,
        latency: float | None = None,
        interface: str | None = None,
        emulate: bool = False,
        environment: Mapping[str, str] | None = None,
        cost: Mapping[str, Mapping[str, float]] | None = None,
        launcher: str = MPI,
    ) -> None:
        self.name = name
        self.rate = None if rate is None else number("fabric.rate", rate, above=0.0)
        self.latency = None if latency is None else number("fabric.latency", latency, low=0.0)
        self.interface = interface
        self.launcher = one_of("fabric.launcher", launcher, (MPI, TORCHRUN))
        self.emulate = boolean("fabric.emulate", emulate)
        self.environment = {str(key): str(value) for key, value in (environment or {}).items()}
        self.cost = None if cost is None else _cost_model(cost)
        if self.emulate and self.launcher != MPI:
            raise ConfigError(
                "fabric.emulate", True, f"needs fabric.launcher={MPI}: the ranks of {self.launcher} share the loopback interface"
            )
        if self.emulate and (self.rate is None or self.latency is None):
            raise ConfigError("fabric.emulate", True, f"fabric={name} has no rate and latency to emulate")
        if self.emulate and self.rate > EMULATED_RATE:  # type: ignore[operator]
            allowed = f"at most {EMULATED_RATE:g} bit/s can be emulated; neuro scale project=true projects faster networks"
            raise ConfigError("fabric.rate", f"{self.rate:g}", allowed)

    def check_rights(self) -> None:
        """Raise ConfigError when this machine cannot emulate the network."""
        from neuro_cli.fabric.emulation.netns import missing_rights

        missing = missing_rights() if self.emulate else ""
        if missing:
            way = "fabric.emulate=false does without, neuro scale project=true projects"
            raise ConfigError("fabric.emulate", True, f"{missing}; {way}")

    def variables(self) -> dict[str, str]:
        """Return environment variables for the ranks of a world that neuro starts."""
        if self.emulate:
            return _SOCKETS | dict.fromkeys(_INTERFACE, PORT)
        named = dict.fromkeys(_INTERFACE, self.interface) if self.interface else {}
        return self.environment | {name: value for name, value in named.items() if value}

    def connect(self, needs_mpi: bool) -> World:
        """Return the world of this process. MPI starts only after a launcher or with ``needs_mpi``. Raises UserError."""
        if self.emulate and HOSTS not in os.environ:
            how = "neuro must start the ranks itself" if launched() else "an emulated network joins the ranks of a world"
            raise ConfigError("fabric.emulate", True, f"{how}: give ranks=N, without a launcher")
        foreign = foreign_start()
        if foreign is not None:
            raise foreign.refusal()
        if launched():
            return launched_world()
        return mpi_world() if needs_mpi else SingleProcess()

    def describe(self, world: World) -> None:
        """Set the network's facts in ``world``. Every rank calls this."""
        world.cost = self.cost
        if HOSTS in os.environ:
            world.interface, world.emulated = PORT, True
        else:
            world.interface = self.interface
            if world.size > 1:
                self._compare_environment()

    def _compare_environment(self) -> None:
        for name, value in self.variables().items():
            if os.environ.get(name) != value:
                log.warning("fabric=%s asks for %s=%s: the launcher set it otherwise, which holds", self.name, name, value)


def _cost_model(cost: Mapping[str, Mapping[str, float]]) -> CostModel:
    def one(kind: str) -> Cost:
        entry: Any = cost.get(kind)
        if not isinstance(entry, Mapping) or set(entry) != {"latency", "bandwidth"}:
            raise ConfigError(f"fabric.cost.{kind}", entry, "needs latency (seconds per message) and bandwidth (bytes a second)")
        return Cost(
            number(f"fabric.cost.{kind}.latency", entry["latency"], low=0.0),
            number(f"fabric.cost.{kind}.bandwidth", entry["bandwidth"], above=0.0),
        )

    return CostModel(one("all_gather"), one("all_reduce"))
