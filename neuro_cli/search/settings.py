"""Settings of a search: the checks of its config, the sizes that the task gives its network, and a candidate's training."""

import hashlib
import json
from functools import partial
from typing import Any

import torch
from torch import nn

from neuro_cli.algo.optimizer import ScheduledOptimizer
from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.schedule import Schedule
from neuro_cli.core.seeds import text_seed
from neuro_cli.factory.instantiate import make, value_of
from neuro_cli.factory.trust import refuse_foreign
from neuro_cli.model.module_cnn import LAYERS, ModuleCNN, check_layers
from neuro_cli.pool.base import WorkUnit
from neuro_cli.run_folder.identity import flatten
from neuro_cli.runner.build import device_of
from neuro_cli.runner.options import Options
from neuro_cli.search.candidate import examples_of
from neuro_cli.search.engine import Engine
from neuro_cli.search.training import OPTIMIZER, SCHEDULE
from neuro_cli.search.weights import KEEP, NONE
from neuro_cli.strategy.base import Strategy
from neuro_cli.strategy.space import Module, Space, text_of

INTEGERS: dict[str, tuple[int, int | None]] = {
    "seed": (0, 2**63 - 1),
    "trainings": (1, 10**6),
    "max_layers": (1, 100),
    "best": (1, None),
    "checkpoint.keep": (1, None),
    "training.epochs": (1, None),
    "training.batch_size": (1, None),
    "training.threads": (1, 1024),
}
# what the numbers of a search depend on, beside where its data lie
IDENTITY = ("seed", "max_layers", "layers", "task", "model", "strategy", "training")
FREE = ("task.root", "task.download", "task.evaluation_batch")


def check(config: dict[str, Any]) -> None:
    """Check all that can be checked without data. Raises UserError."""
    for key, (low, high) in INTEGERS.items():
        integer(key, value_of(config, key), low, high)
    keep_of(config)
    number("training.validation", value_of(config, "training.validation"), above=0.0, high=0.9)
    integer("training.slices", config["training"].get("slices", 1), 1, config["training"]["batch_size"])
    if value_of(config, "time_limit") is not None:
        number("time_limit", config["time_limit"], above=0.0)
    if value_of(config, "layers") is not None:
        names = check_layers("layers", config["layers"])
        if len(set(names)) < len(names):
            raise ConfigError("layers", f"[{','.join(names)}]", "a layer occurs twice")
    Engine(make(config, "strategy", Strategy), space_of(config), config["seed"], config["trainings"])
    device_of(value_of(config, "training.device"))
    refuse_foreign({part: value_of(config, part) for part in ("task", "model", "training")}, "candidates")
    schedule = Schedule(**value_of(config, "training.lr_schedule"), key=SCHEDULE, generations=1)
    ScheduledOptimizer(make(config["training"], "optimizer", partial), schedule, [nn.Parameter(torch.zeros(1))], OPTIMIZER)


def completed(config: dict[str, Any]) -> dict[str, Any]:
    """Config with the sizes of the model that it leaves null. Raises UserError.

    Reads the examples once: what is wrong with them is said before any candidate is sent out.
    """
    declared = value_of(config, "model").get("input_shape")
    shape = None if declared is None else tuple(declared)
    examples_of(json.dumps(config["task"], sort_keys=True), shape, config["training"]["validation"])
    config = Options(config).plain
    make(described(config, (next(iter(space_of(config).layers)),)), "model", ModuleCNN)
    examples_of.cache_clear()  # only the workers train on them
    return config


def space_of(config: dict[str, Any]) -> Space:
    """Space of the modules that a search may try."""
    return Space(tuple(config["layers"] or LAYERS), config["max_layers"])


def identity_of(config: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys and values that the search's numbers depend on."""
    leaves = flatten({key: config[key] for key in IDENTITY})
    # modules are what is searched for: the one in the config is never used
    return {key: value for key, value in leaves.items() if key not in FREE and key != "model.module"}


def task_of(config: dict[str, Any], module: Module, name: str) -> WorkUnit:
    """Make the task that trains ``module``, the same one whenever the search ``name`` asks for it."""
    payload = described(config, module)
    digest = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
    return WorkUnit(f"{name}-{digest[:24]}", "candidate", payload)


def described(config: dict[str, Any], module: Module) -> dict[str, Any]:
    """Make the payload for `train_candidate`."""
    return {
        "task": config["task"],
        "model": {**config["model"], "module": list(module)},
        "training": config["training"],
        "seed": training_seed(config["seed"], module),
        **({} if keep_of(config) == NONE else {"weights": True}),
    }


def network_of(config: dict[str, Any], module: Module) -> ModuleCNN:
    """Make the network of a candidate without values (on the device ``meta``)."""
    with torch.device("meta"):
        return make(described(config, module), "model", ModuleCNN)


def keep_of(config: dict[str, Any]) -> str:
    """Choose the trained weights that are kept; none in a search that was saved before there was a choice. Raises ConfigError."""
    return one_of("keep_weights", config.get("keep_weights", NONE), KEEP)


def training_seed(seed: int, module: Module) -> int:
    """Seed of a candidate's weights and batches: of the search's seed and the architecture, not of who trains it or when."""
    return text_seed(f"{seed}: {text_of(module)}")
