"""Options of a run's config: each object is made once, at its first use."""

from functools import cached_property
from typing import Any

from neuro_cli.algo.base import Algorithm
from neuro_cli.algo.ensemble import Ensemble
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.distribution.ensemble.base import EnsembleMethod
from neuro_cli.distribution.method import Method
from neuro_cli.fabric.base import World
from neuro_cli.fabric.network import Network
from neuro_cli.factory.instantiate import Kind, expect, make
from neuro_cli.logger.base import Logger
from neuro_cli.runner.config import RunConfig
from neuro_cli.sampler.base import Estimator
from neuro_cli.task.base import Task


class Options:
    """Options of one run: its parts before they are bound to each other. Each property raises UserError for a wrong config.

    ``plain``: the resolved config; sizes of models that it leaves null are the task's.
    """

    def __init__(self, plain: dict[str, Any]) -> None:
        self._bound = False
        self.plain = plain  # the task, which may be asked for sizes, reads it
        self.plain = {**plain, "model": self._sized(plain["model"])} if "model" in plain else plain
        algo = plain.get("algo")
        if isinstance(algo, dict) and isinstance(algo.get("members"), list):
            members = [
                {**entry, "model": self._sized(entry["model"])} if isinstance(entry, dict) and "model" in entry else entry
                for entry in algo["members"]
            ]
            self.plain = {**self.plain, "algo": {**algo, "members": members}}

    def _sized(self, model: Any) -> Any:
        """Return the config of a network with the task's sizes where it has null."""
        if not isinstance(model, dict) or all(value is not None for value in model.values()):
            return model
        declared = model.get("input_shape")
        sizes = self.task.model_arguments(tuple(declared) if isinstance(declared, list) else None)
        return {**model, **{key: size for key, size in sizes.items() if model.get(key, 0) is None}}

    @cached_property
    def config(self) -> RunConfig:
        """Config of the run: the root keys, checked."""
        return RunConfig.of(self.plain)

    @cached_property
    def task(self) -> Task:
        return make(self.plain, "task", Task)

    @cached_property
    def sampler(self) -> Estimator:
        return make(self.plain, "sampler", Estimator)

    @cached_property
    def algo(self) -> Algorithm:
        """Algorithm of the run, without the networks of ``algo.members``: each rank makes its own."""
        node = self.plain.get("algo")
        if isinstance(node, dict) and isinstance(node.get("members"), list):
            # Hydra would make every object in the list at once, on every rank
            node = {**node, "members": [None] * len(node["members"])}
        return make({**self.plain, "algo": node}, "algo", Algorithm)

    def algo_of(self, kind: type[Kind]) -> Kind:
        """Return the algorithm, which must be of a kind. Raises ConfigError."""
        return expect(self.algo, self.plain, "algo", kind)

    @property
    def is_ensemble(self) -> bool:
        """Return whether the run trains an ensemble."""
        return isinstance(self.algo, Ensemble)

    @cached_property
    def method(self) -> Method:
        """Distribution method of the run."""
        return make(self.plain, "distribution", Method)

    def method_of(self, kind: type[Kind]) -> Kind:
        """Return the distribution method, which must be of a kind: Distribution, or EnsembleMethod. Raises ConfigError."""
        if isinstance(self.method, kind):
            return self.method
        if kind is EnsembleMethod:
            allowed = (
                "algo=ensemble needs one of logits_allreduce, _tree, _pipelined, _microbatches, single_graph, batch_parallel"
            )
        else:
            allowed = "it trains ensembles: choose algo=ensemble, or auto (the default) or another method of populations"
        raise ConfigError("distribution", self.method.name, allowed)

    @cached_property
    def network(self) -> Network:
        return make(self.plain, "fabric", Network)

    @cached_property
    def logger(self) -> Logger:
        """Logger of the run; metrics.csv is written in any case."""
        return make(self.plain, "logger", Logger)

    def world(self) -> World:
        """Connect the world of ranks that the fabric gives. Raises UserError without MPI where the method needs it."""
        try:
            return self.network.connect(self.method.needs_mpi)
        except ConfigError:
            raise
        except UserError as error:
            raise ConfigError("distribution", self.method.name, str(error)) from error

    def bind(self) -> None:
        """Mark the options' parts as bound to one world. Raises AssertionError the second time."""
        if self._bound:
            raise AssertionError("options serve one run: another one needs options of its own")
        self._bound = True
