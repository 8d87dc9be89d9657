"""Trained network of a run folder of any verb, with its inputs and facts about its training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as tensors_of
from torch import nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.factory.instantiate import make
from neuro_cli.factory.trust import refuse_untrusted
from neuro_cli.model.module_cnn import ModuleCNN
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.run_folder.config import is_search, saved_config
from neuro_cli.run_folder.declaration import declared, declared_inputs
from neuro_cli.run_folder.metrics import read_metrics
from neuro_cli.run_folder.model_file import facts_of
from neuro_cli.run_folder.saved_summary import read_summary
from neuro_cli.runner.load import MODULE, load_model, read_checkpoint, read_config
from neuro_cli.search.candidate import payload_of
from neuro_cli.search.command import OURS
from neuro_cli.search.config import SearchConfig
from neuro_cli.search.engine import engine_of
from neuro_cli.search.record import saved_outcomes
from neuro_cli.search.session import replay
from neuro_cli.search.weights import WeightsFolder
from neuro_cli.task.base import Task
from neuro_cli.task.inputs import Inputs

CREATED = ("strategy", "task", "model", "training")  # groups of a search whose objects are created here; its pool is not needed


@dataclass(frozen=True)
class Network:
    """Network to export: the trained ``module`` in evaluation mode, on the CPU. ``facts``: as in ``model.safetensors``."""

    module: nn.Module
    inputs: Inputs
    facts: dict[str, Any]


def network_of(run: Path, checkpoint: int | str | None, trust: list[str]) -> Network:
    """Load the network of a run folder: a checkpoint's (a generation, ``best``) or the last state's. Raises UserError."""
    if is_search(run):
        _refuse_checkpoint(checkpoint, "a search keeps weights of candidates")
        return _of_search(run, trust)
    if "cluster" in saved_config(run):
        _refuse_checkpoint(checkpoint, "a peer's ledger has its last iteration")
        return _of_peer(run, trust)
    return _of_training(run, checkpoint, trust)


def _refuse_checkpoint(checkpoint: int | str | None, why: str) -> None:
    if checkpoint is not None:
        raise ConfigError("checkpoint", checkpoint, f"{why}: leave it out")


def _of_training(run: Path, generation: int | str | None, trust: list[str]) -> Network:
    config = read_config(run, trust, None, "load", MODULE)
    checkpoint = read_checkpoint(run, config, generation)
    module = load_model(run, config, checkpoint)
    inputs = declared_inputs(run) or _inputs_by_data(config)
    facts = facts_of(config, checkpoint.generation, inputs, *_measured(run, checkpoint.generation))
    return Network(module, inputs, facts)


def _of_peer(run: Path, trust: list[str]) -> Network:
    from neuro_cli.evolve.evolve import check_packages  # imported here: it needs an extra

    check_packages()
    from neuro_cli.evolve.training.replay import replayed

    config = read_config(run, trust)
    with replayed(run, config, from_start=False) as peer:
        inputs = peer.parts.task.inputs()
        facts = facts_of(config, peer.iteration, inputs, *_measured(run, peer.iteration))
        return Network(peer.module().eval(), inputs, {**facts, "parameters_sha256": peer.digest})


def _of_search(run: Path, trust: list[str]) -> Network:
    """Return the best candidate by validation. Raises UserError where its weights were not saved."""
    config = saved_config(run)
    refuse_untrusted({part: config[part] for part in CREATED}, trust, OURS)
    search = SearchConfig.of(config)
    engine = engine_of(search)
    replay(engine, saved_outcomes(CheckpointStore(run, keep=1).load()))
    best = engine.best(1)
    if not best:
        raise UserError(f"{run}: the search has no network that was trained without an error")
    number = engine.archive.started[best[0].module]
    path = WeightsFolder(run).path(number)
    if not path.is_file():
        text = f"the weights of its best network (candidate {number}) were not kept: keep_weights=best keeps them"
        raise UserError(f"{run}: {text}; neuro train model={run / 'best' / 'best_1.yaml'} trains it again")
    payload = payload_of(search, best[0].module)
    module = make(payload, "model", ModuleCNN)
    try:
        module.load_state_dict(tensors_of(path.read_bytes()))
    except Exception as error:  # a damaged or foreign file
        raise UserError(f"{path}: no weights of this network: {' '.join(str(error).split())[:160]}") from error
    inputs = _inputs_by_data({**config, "batch_size": 1, "model": payload["model"]})
    facts = facts_of({**config, "model": payload["model"]}, 0, inputs, None, {})
    metric = {"name": "validation_accuracy", "better": "higher", "value": best[0].fitness}
    return Network(module.eval(), inputs, {**facts, "generation": None, "candidate": number, "metric": metric})


def _inputs_by_data(config: Mapping[str, Any]) -> Inputs:
    """Return the inputs of a run whose folder does not declare them (a search, an earlier version), from its task's data."""
    task = make(config, "task", Task)
    shape = config["model"].get("input_shape")
    task.load(
        input_shape=tuple(shape) if shape else getattr(make(config, "model", nn.Module), "input_shape", None),
        device=torch.device("cpu"),
        seed=config["seed"],
        batch_size=config["batch_size"],
    )
    return task.inputs()


def _measured(run: Path, generation: int) -> tuple[Any, dict[str, float]]:
    """Return the run's headline metric, and its value at ``generation`` if the folder has one."""
    headline = next(iter(declared(run)), None)
    if headline is None:
        return None, {}
    generations, values = read_metrics(run / "metrics.csv").points(headline.name)
    by_generation = {int(at): float(value) for at, value in zip(generations, values, strict=True)}
    value = by_generation.get(generation, _of_summary(run, generation).get(headline.name))
    return headline, {} if value is None else {headline.name: value}


def _of_summary(run: Path, generation: int) -> dict[str, Any]:
    """Return the summary of a run that ended at ``generation``, {} for any other run."""
    try:
        summary = read_summary(run) or {}
    except UserError:  # the value is left out
        return {}
    return summary if summary.get("generations") == generation else {}
