"""Plan of a scaling study: its points, and the config of each.

Weak scaling keeps the members of a rank, strong scaling those of all ranks; both take times at points (method, ranks,
population), and many points serve both.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neuro_cli.core.checks import boolean, integer, thread_count
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.distribution.base import Distribution
from neuro_cli.distribution.ensemble.base import EnsembleMethod
from neuro_cli.fabric.network import Network
from neuro_cli.factory.instantiate import make
from neuro_cli.runner.config import BITS_32, Check, RunConfig, bounded, key, section
from neuro_cli.runner.options import Options

MOST_RANKS = 65_536


def _integers(high: int, empty: bool = False) -> Check:
    """Return the check of a list of integers up to ``high``, which become sorted, each once."""

    def check(key: str, given: Any) -> tuple[int, ...]:
        if not isinstance(given, list) or not (given or empty):
            raise ConfigError(key, given, "must be a list of integers, for example [1,2]")
        return tuple(sorted({integer(key, value, 1, high) for value in given}))

    return check


@dataclass(frozen=True)
class Point:
    """Point of a scaling study to time: a method on ``ranks`` ranks with ``population`` members in all, of one of the models."""

    method: str
    ranks: int
    population: int
    model: str = ""


@dataclass(frozen=True)
class Study:
    """Checked scaling study: keys of ``conf/scale.yaml``, and what they name.

    ``networks``: by name, in the order asked for; ``unmeasured``: those that are projected only. ``models``: configs by name, in
    the order asked for.
    """

    config: dict[str, Any]
    models: dict[str, Any]
    methods: tuple[str, ...]
    networks: dict[str, Network]
    unmeasured: frozenset[str]
    ranks: tuple[int, ...] = key(_integers(MOST_RANKS))
    projected_ranks: tuple[int, ...] = key(_integers(MOST_RANKS, empty=True))
    populations: tuple[int, ...] = key(_integers(BITS_32, empty=True))
    strong: tuple[int, ...] = key(_integers(BITS_32, empty=True))
    warmup: int = key(bounded(0))
    repeats: int = key(bounded(1))
    rounds: int = key(bounded(1))
    threads: int = key(thread_count)
    oversubscribed: bool = key(boolean)
    project: bool = key(boolean)

    @property
    def cores(self) -> int:
        return usable_cores()

    def crowded(self, ranks: int) -> bool:
        """Return whether ``ranks`` ranks of the study share cores on this machine."""
        return ranks * self.threads > self.cores

    def points(self, ranks: int) -> list[Point]:
        """Return the points of one number of ranks; weak and strong scaling share some, which appear once."""
        populations = dict.fromkeys([*(members * ranks for members in self.populations), *(p for p in self.strong if p >= ranks)])
        return [
            Point(method, ranks, population, model)
            for model in self.models
            for method in self.methods
            for population in populations
        ]

    def point_config(self, point: Point, network: str | None) -> dict[str, Any]:
        """Return the config of a training run at the point."""
        config = {key: value for key, value in self.config.items() if key not in _OWN_KEYS}
        config |= copy.deepcopy(self.config["known_methods"][point.method])
        if point.model:
            config["model"] = copy.deepcopy(self.models[point.model])
        if network is not None:
            config["fabric"] = copy.deepcopy(self.config["known_fabrics"][network])
        config |= {"population": point.population, "ranks": None}
        if "size" in config["algo"]:  # an ensemble's members are its population
            config["algo"] = {**config["algo"], "size": point.population}
        return config


_OWN_KEYS = {
    "known_methods", "known_fabrics", "known_models", "methods", "fabrics", "projected_fabrics", "models", "populations",
    "strong", "warmup", "repeats", "rounds", "project", "projected_ranks", "oversubscribed",
}  # fmt: skip


def study_of(options: Options) -> Study:
    """Check the config of ``neuro scale``. Raises UserError."""
    config, ensemble = options.plain, options.is_ensemble
    usual = {"fabric": ("Network",), "distribution": ("LogitsAllReduce",) if ensemble else ("Auto", "Local")}
    for group, several in (("fabric", "fabrics=[...]"), ("distribution", "methods=[...]")):
        chosen = config[group]["_target_"]
        if chosen.rsplit(".", 1)[-1] not in usual[group] or config[group].get("name", "native") != "native":
            raise ConfigError(group, chosen, f"neuro scale compares several: give {several}")
    if config["population"] is not None:
        allowed = "neuro scale varies it: give populations=[..] (members of a rank) or strong=[..] (of all)"
        raise ConfigError("population", config["population"], allowed)
    if ensemble and config["algo"]["members"]:
        raise ConfigError("algo.members", "[...]", "neuro scale varies the number of members: they must be of one kind")
    measured = _names(config, "fabrics", config["known_fabrics"])
    projected = _names(config, "projected_fabrics", config["known_fabrics"], empty=True)
    study = section(
        Study,
        config,
        config=config,
        models=_models(config),
        methods=_names(config, "methods", config["known_methods"]),
        networks=_networks(config, measured, projected),
        unmeasured=frozenset(projected),
    )
    for name in study.methods:
        Options(config | config["known_methods"][name]).method_of(EnsembleMethod if ensemble else Distribution)
    if not study.populations and not study.strong:
        raise ConfigError("populations", [], "nothing to measure: give populations (weak scaling) or strong")
    for point in study.points(max(study.ranks)):
        RunConfig.of(study.point_config(point, None))
    if not study.project:
        for network in study.networks.values():
            network.check_rights()
    return study


def _networks(config: Mapping[str, Any], measured: tuple[str, ...], projected: tuple[str, ...]) -> dict[str, Network]:
    """Return networks by name; projected-only ones are not emulated, and have a cost model. Raises ConfigError."""
    both = [name for name in projected if name in measured]
    if both:
        raise ConfigError("projected_fabrics", both[0], "it is among fabrics: those are projected too")
    networks = {}
    for name in (*measured, *projected):
        node = copy.deepcopy(config["known_fabrics"][name])
        if config["project"] is True or name in projected:
            node["emulate"] = False
        networks[name] = make({"fabric": node}, "fabric", Network)
        if name in projected and networks[name].cost is None:
            raise ConfigError("projected_fabrics", name, "it has no cost model to project with")
    return networks


def _models(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return configs of the models by name: those of ``models``, else the one of the group."""
    if config["models"] is None:
        target = config["model"].get("_target_") if isinstance(config["model"], dict) else config["model"]
        return {str(target).rsplit(".", 1)[-1]: config["model"]}
    return {name: config["known_models"][name] for name in _names(config, "models", config["known_models"])}


def _names(config: Mapping[str, Any], key: str, options: Mapping[str, Any], empty: bool = False) -> tuple[str, ...]:
    given = config[key]
    if not isinstance(given, list) or not (given or empty):
        raise ConfigError(key, given, f"must be a list of names, [{', '.join(options)}]")
    for name in given:
        if name not in options:
            raise ConfigError(key, name, f"no such one; {nearest(str(name), options)}")
    return tuple(dict.fromkeys(given))
