"""Base of the loops in a user's own script: ranks, threads, and the settings that a saved state belongs to."""

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary, ref

import torch

from neuro_cli.algo.base import CentreAlgorithm, PopulationAlgorithm
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.memory import keep_freed_memory
from neuro_cli.core.machine.threads import Threads, threads_kept
from neuro_cli.core.module.bound_functions import FunctionCopies
from neuro_cli.distribution.base import Distribution
from neuro_cli.fabric.base import World
from neuro_cli.fabric.network import Network
from neuro_cli.library.named import option
from neuro_cli.runner.bind import Numbers
from neuro_cli.runner.build import threads_of
from neuro_cli.sampler.base import Estimator

FORMAT = 1
log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
L = TypeVar("L", bound="Loop")
_OWNERS: "WeakKeyDictionary[Any, ref[Loop]]" = WeakKeyDictionary()  # the loop that each part is bound to


def one_at_a_time(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """Return a ``method`` of a loop that raises UserError after its end, and while another such call runs, in any thread."""

    @wraps(method)
    def called(self: L, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._calls.acquire(blocking=False):
            said = "another call of this object runs, in another thread or around this one: one at a time"
            raise UserError(f"{method.__name__}: {said}")
        try:
            if self._closed:
                raise UserError(f"{method.__name__}: this {type(self).__name__} is closed: give its state_dict() to a new one")
            return method(self, *args, **kwargs)
        finally:
            self._calls.release()

    return called


class Loop:
    """Loop on ranks that run the same script. ``generation``: number of completed ones."""

    generation = 0
    _closed = False
    world: World
    _threads: Threads
    _settings: dict[str, Any]
    _subject: str  # class of the module

    def _connect(
        self, distribution: str | Distribution, fabric: str | Network, world: World | None, generations: int | None = None
    ) -> Distribution:
        """Join the ranks, and return the distribution method. Raises ConfigError."""
        method = option("distribution", distribution, Distribution, generations)
        network = option("fabric", fabric, Network, generations)
        self.world = network.connect(method.needs_mpi) if world is None else world
        network.describe(self.world)
        return method

    def _claim(self, **parts: Any) -> None:
        """Bind ``parts`` of an Evolution, by group, to it. Raises ConfigError for one that another Evolution uses."""
        for group, part in parts.items():
            owner = _OWNERS.get(part)
            if owner is not None and owner() is not None:
                raise ConfigError(group, type(part).__name__, "another Evolution uses it: create one for each")
            _OWNERS[part] = ref(self)

    def _start_threads(self, threads: int | None, device: torch.device) -> None:
        self._calls = Lock()
        if device.type == "cpu":
            keep_freed_memory()
        with threads_kept():
            self._threads = Threads(threads_of(threads, self.world, device))

    @property
    def rank(self) -> int:
        """Number of the loop's process among the ranks; rank 0 should print and save."""
        return self.world.rank

    def _state(self) -> dict[str, Any]:
        """Return the first entries of every saved state."""
        return {"format": FORMAT, "generation": self.generation, "settings": dict(self._settings)}

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse a new value of an argument that has no effect after the constructor. Raises AttributeError."""
        if name in ("lr", "sigma", "population"):
            hint = "; it may be a function of the generation" if name == "lr" else ""
            raise AttributeError(f"{name} is an argument of {type(self).__name__}(...){hint}", name=name, obj=self)
        super().__setattr__(name, value)

    def close(self) -> None:
        """End the loop and its threads; the module stays as it is."""
        self._closed = True
        self._threads.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the loop itself for a member's copy of a module that holds it. Raises TypeError for any other copy."""
        return self if isinstance(memo, FunctionCopies) else self.__reduce_ex__(0)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse copies and pickles: a copy would share threads, ranks and the module. Raises TypeError."""
        raise TypeError(f"{type(self).__name__} has threads and ranks and is not copied: give its state_dict() to a new one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        facts = ", ".join(f"{key}={value}" for key, value in self._settings.items())
        return f"{type(self).__name__}({self._subject}, generation={self.generation}, {facts})"


def refuse_other(settings: Mapping[str, Any], state: Mapping[str, Any], absent: Any = None) -> None:
    """Raise ConfigError where ``state`` has other ``settings``; ``absent``: the value of one that a state lacks."""
    if state.get("format") != FORMAT:
        raise ConfigError("format", state.get("format"), f"this version reads states of format {FORMAT}")
    for key in {**settings, **state["settings"]}:
        value, saved = settings.get(key, absent), state["settings"].get(key, absent)
        if saved != value:
            raise ConfigError(key, value, f"the saved state has {saved}")


def steps_of(algo: CentreAlgorithm, generation: int) -> dict[str, Any]:
    """Return what a generation's step is made with, as far as a script may choose it: sigma and the learning rate."""
    return {"sigma": algo.sigma_at(generation), "lr": algo.rate_at(generation)}


def report_other_steps(where: str, saved: dict[str, Any], own: dict[str, Any]) -> None:
    """Warn of each of ``own`` :func:`steps_of` that is not as ``saved``; ``where`` that comes from."""
    for key, value in own.items():
        if saved.get(key, value) != value:
            log.warning("%s: %s=%s from now on; the saved state had %s", where, key, value, saved[key])


def settings_of(numbers: Numbers, algo: PopulationAlgorithm, sampler: Estimator, stored: ParameterLayout) -> dict[str, Any]:
    """Return the settings that a saved state belongs to; another Evolution must have the same to resume from it."""
    plain = {key: value for key, value in vars(sampler).items() if isinstance(value, bool | int | float | str | None)}
    chosen = ", ".join(f"{key}={value}" for key, value in sorted(plain.items()) if not key.startswith("_"))
    weights = {} if stored.dtype == torch.float32 else {"weights": str(stored.dtype).removeprefix("torch.")}
    return weights | {
        "seed": numbers.seed,
        "population": numbers.population,
        "parameters": stored.size,
        "algo": type(algo).__name__,
        "sampler": f"{type(sampler).__name__}({chosen})",
        "layout": "per_example" if numbers.per_example else "shared_batch",
        "precision": str(numbers.precision).removeprefix("torch."),
    }
