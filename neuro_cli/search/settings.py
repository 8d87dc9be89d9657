"""Settings of a search: the checks of its config, the sizes that the task gives its network, and a candidate's training."""

import hashlib
import json
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from neuro_cli.algo.optimizer import ScheduledOptimizer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.schedule import Schedule
from neuro_cli.core.seeds import text_seed
from neuro_cli.factory.instantiate import make, value_of
from neuro_cli.factory.trust import refuse_foreign
from neuro_cli.model.module_cnn import LAYERS, ModuleCNN, check_layers
from neuro_cli.pool.base import WorkUnit
from neuro_cli.run_folder.identity import flatten
from neuro_cli.runner.device import device_of
from neuro_cli.runner.options import Options
from neuro_cli.search.candidate import examples_of
from neuro_cli.search.config import NONE, SearchConfig
from neuro_cli.search.engine import Engine
from neuro_cli.search.training import OPTIMIZER, SCHEDULE
from neuro_cli.strategy.base import Strategy
from neuro_cli.strategy.space import Module, Space, text_of

# keys that determine the numbers of a search, apart from where its data lie
IDENTITY = ("seed", "max_layers", "layers", "task", "model", "strategy", "training")
FREE = ("task.root", "task.download", "task.evaluation_batch")


def check(config: dict[str, Any]) -> SearchConfig:
    """Check all that can be checked without data. Raises UserError."""
    search = SearchConfig.of(config)
    if search.layers is not None:
        names = check_layers("layers", search.layers)
        if len(set(names)) < len(names):
            raise ConfigError("layers", f"[{','.join(names)}]", "a layer occurs twice")
    engine_of(search)
    device_of(search.training.device)
    refuse_foreign({part: value_of(config, part) for part in ("task", "model", "training")}, "candidates")
    schedule = Schedule(**search.training.lr_schedule, key=SCHEDULE, generations=1)
    ScheduledOptimizer(make(config["training"], "optimizer", partial), schedule, [nn.Parameter(torch.zeros(1))], OPTIMIZER)
    return search


def engine_of(search: SearchConfig) -> Engine:
    """Make the engine of a search that begins. Raises UserError."""
    return Engine(make(search.plain, "strategy", Strategy), space_of(search), search.seed, search.trainings)


def completed(search: SearchConfig) -> SearchConfig:
    """Fill in the sizes of the model that the config leaves null. Raises UserError.

    Reads the examples once, so that errors in them come before any candidate is sent out.
    """
    config = search.plain
    declared = config["model"].get("input_shape")
    shape = None if declared is None else tuple(declared)
    examples_of(json.dumps(config["task"], sort_keys=True), shape, search.training.validation)
    search = replace(search, plain=Options(config).plain)
    make(described(search, (next(iter(space_of(search).layers)),)), "model", ModuleCNN)
    examples_of.cache_clear()  # only the workers train on these examples
    return search


def space_of(search: SearchConfig) -> Space:
    """Return the space of the modules that a search may try."""
    return Space(tuple(search.layers or LAYERS), search.max_layers)


def identity_of(search: SearchConfig) -> dict[str, Any]:
    """Return the dotted keys and values that the search's numbers depend on."""
    leaves = flatten({key: search.plain[key] for key in IDENTITY})
    # the search chooses modules: the one in the config is never used
    return {key: value for key, value in leaves.items() if key not in FREE and key != "model.module"}


def task_of(search: SearchConfig, module: Module, name: str) -> WorkUnit:
    """Make the task that trains ``module``; the search ``name`` gets the same one each time."""
    payload = described(search, module)
    digest = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
    return WorkUnit(f"{name}-{digest[:24]}", "candidate", payload)


def described(search: SearchConfig, module: Module) -> dict[str, Any]:
    """Make the payload for `train_candidate`."""
    config = search.plain
    return {
        "task": config["task"],
        "model": {**config["model"], "module": list(module)},
        "training": config["training"],
        "seed": text_seed(f"{search.seed}: {text_of(module)}"),  # the same for an architecture whenever it is bred
        **({} if search.keep_weights == NONE else {"weights": True}),
    }


def network_of(search: SearchConfig, module: Module) -> ModuleCNN:
    """Make the network of a candidate without values (on the device ``meta``)."""
    with torch.device("meta"):
        return make(described(search, module), "model", ModuleCNN)
