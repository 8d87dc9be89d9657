"""`neuro search` and `neuro resume` of a search: from a config to a folder with the results."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuro_cli.algo.centre.torch_optimizer import ScheduledOptimizer
from neuro_cli.broker.addresses import check_address
from neuro_cli.broker.settings import SecurityConfig
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError, printable
from neuro_cli.core.messages.verbosity import say
from neuro_cli.core.metric import ACCURACY
from neuro_cli.core.schedule import Schedule
from neuro_cli.factory.instantiate import make, value_of
from neuro_cli.factory.trust import refuse_foreign, refuse_untrusted
from neuro_cli.launch.launcher import world_launcher
from neuro_cli.model.module_cnn import ModuleCNN, check_layers
from neuro_cli.pool.base import Pool
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner.config import section
from neuro_cli.runner.device import device_of
from neuro_cli.runner.options import Options
from neuro_cli.search.candidate import OPTIMIZER, SCHEDULE, examples_of, payload_of
from neuro_cli.search.config import SearchConfig
from neuro_cli.search.engine import engine_of, space_of
from neuro_cli.search.session import search

ROLES = ("all", "model")
PARTS = ("nameserver", "broker", "worker")  # processes of a cluster, which do not search
OURS = ("neuro_cli.strategy.", "neuro_cli.pool.")  # making these classes starts and reads nothing


def begin(config: dict[str, Any], run: Path, shown: Path, save: Callable[[dict[str, Any]], None]) -> int:
    """Run the command ``neuro search`` from the start. ``shown``: the folder as typed; ``save`` writes the resolved config there.

    Raises UserError before anything is written.
    """
    role = one_of("role", config.get("role"), (*ROLES, *PARTS))
    search_config = check(config)
    _check_cluster(config)
    pool = make(config, "pool", Pool)
    if config["pool"].get("ranks", 1) != 1:
        world_launcher()  # raises UserError where there is none
    if role == "model" and pool.own_workers:
        raise ConfigError("role", role, "its candidates are trained by the workers of a cluster: it needs pool=broker")
    search_config = completed(search_config)
    save(search_config.plain)
    log_to(run, 0)
    return _report(search(search_config, run), shown)


def _check_cluster(config: dict[str, Any]) -> None:
    """Check the cluster's keys, whose values a pool of another name has. Raises ConfigError."""
    section(SecurityConfig, config.get("security"), "security.").check(warns=False)  # the pool warns
    if (address := (config.get("nameserver") or {}).get("address")) is not None:
        check_address("nameserver.address", address, zero=True)


def resume(config: dict[str, Any], run: Path, trust: list[str]) -> int:
    """Resume the search of ``run`` from its last checkpoint. ``trust``: packages whose classes the saved config may name.

    Raises UserError.
    """
    refuse_untrusted(config, trust, OURS)
    search_config = check(config)
    checkpoint = CheckpointStore(run, keep=1).load()
    done = len(checkpoint.scalars["outcomes"])
    if search_config.trainings < done:
        raise ConfigError("trainings", search_config.trainings, f"the checkpoint has {done} already")
    log_to(run, 0)
    return _report(search(search_config, run, checkpoint), run)


def check(config: dict[str, Any]) -> SearchConfig:
    """Check all of a search's config that can be checked without data. Raises UserError."""
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


def completed(search: SearchConfig) -> SearchConfig:
    """Fill in the sizes of the model that a search's config leaves null. Raises UserError.

    Reads the examples once, so that errors in them come before any candidate is sent out.
    """
    config = search.plain
    declared = config["model"].get("input_shape")
    shape = None if declared is None else tuple(declared)
    examples_of(json.dumps(config["task"], sort_keys=True), shape, search.training.validation)
    search = replace(search, plain=Options(config).plain)
    make(payload_of(search, (next(iter(space_of(search).layers)),)), "model", ModuleCNN)
    examples_of.cache_clear()  # the workers alone train on these examples
    return search


def _report(summary: dict[str, Any], run: Path) -> int:
    """Print the best module. Returns the exit code."""
    if summary["module"] is not None:
        accuracies = (
            f"validation accuracy {summary['validation_accuracy']:.4f}, {ACCURACY.label} {ACCURACY.text(summary[ACCURACY.name])}"
        )
        best = f"best module {' '.join(summary['module'])}: {accuracies}, {summary['parameters']:,} parameters"
        print(printable(best))
        print(printable(f"neuro train model={run / 'best' / 'best_1.yaml'} trains it"), flush=True)
    say(f"neuro: results in {run}")
    return 0
