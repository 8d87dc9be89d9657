"""A run folder read back: its config, its checkpoints, its model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.runner import saved_yaml
from neuro_cli.runner.build import make, make_model
from neuro_cli.runner.checkpoint import STATE, Checkpoint, CheckpointStore, write_atomically
from neuro_cli.runner.identity import refuse_other
from neuro_cli.runner.members import JointPrediction, load_members
from neuro_cli.runner.own_code import let_import
from neuro_cli.runner.trust import leaves, refuse_untrusted
from neuro_cli.task.base import Task


@contextmanager
def resumed_config(run: Path, config: dict[str, Any]) -> Iterator[None]:
    """Keep the config of a resumed run beside the original one, for later resumes; take it back if no checkpoint followed."""
    path, state = run / ".hydra" / "resumed.yaml", run / "checkpoints" / STATE
    config_before, state_before = _content(path), _content(state)
    write_atomically(path, OmegaConf.to_yaml(OmegaConf.create(config)).encode())
    try:
        yield
    finally:
        if _content(state) == state_before:
            if config_before is None:
                path.unlink()
            else:
                write_atomically(path, config_before)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def read_config(run: Path, trust: list[str] | None) -> dict[str, Any]:
    """The resolved config of a training run's folder. Raises UserError for another folder.

    A saved config names the classes it is made of, and making them runs their code: others than ours and torch's need
    their package in ``trust`` (None: all are trusted).
    """
    config = saved_config(run)
    if not {"task", "model", "algo", "seed"} <= config.keys():
        raise UserError(f"{run}: no training run of neuro (its config has no task, model, algo, seed)")
    if trust is None:
        let_import()
    else:
        refuse_untrusted(config, trust)
    return config


def saved_config(run: Path) -> dict[str, Any]:
    """The resolved config in the folder of a run of any verb. Raises UserError for a folder that is no run."""
    resumed = run / ".hydra" / "resumed.yaml"
    path = resumed if resumed.exists() else run / ".hydra" / "config.yaml"
    if not path.exists():
        raise UserError(f"{run}: no run of neuro (no .hydra/config.yaml there)")
    config = saved_yaml.read(path)
    for key, value in leaves(config):
        # it would read what the environment has, and a run saves its config resolved: this one never began, or was edited
        if isinstance(value, str) and "${" in value:
            raise UserError(f"{path}: {key}={value}: an interpolation is not resolved here")
    return {str(key): value for key, value in config.items()} if isinstance(config, dict) else {}


def is_search(run: Path) -> bool:
    """Whether the folder is that of an architecture search. Raises UserError for a folder that is no run."""
    return {"strategy", "trainings"} <= saved_config(run).keys()


def read_checkpoint(run: Path, config: dict[str, Any], generation: int | None) -> Checkpoint:
    """A verified checkpoint of the run, the last one by default. Raises UserError if it is of another run."""
    checkpoint = CheckpointStore(run, keep=1).load(generation)
    refuse_other(config, checkpoint.scalars["identity"])
    if checkpoint.shards:
        return checkpoint  # of an ensemble: its members' networks are compared when they are made
    size, saved = ParameterLayout(make_model(config)).size, checkpoint.tensors["parameters"].numel()
    if size != saved:
        target = config["model"]["_target_"]
        raise UserError(f"model._target_={target}: it has {size} parameters now, the run's checkpoint {saved}; resume keeps it")
    return checkpoint


def load_model(run: Path, config: dict[str, Any], checkpoint: Checkpoint) -> nn.Module:
    """The trained module in evaluation mode, on the CPU. Of an ensemble: a module whose output is the mean of its members'."""
    if checkpoint.shards:
        return JointPrediction(load_members(config, checkpoint)).eval()
    model = make_model(config)
    layout = ParameterLayout(model, checkpoint.scalars.get("channels_last", True))
    layout.load(model, checkpoint.tensors["parameters"])
    buffers = dict(model.named_buffers())
    with torch.no_grad():
        for name, tensor in checkpoint.tensors.items():
            if name.startswith("buffers."):
                buffers[name.removeprefix("buffers.")].copy_(tensor)
    task: Task = make(config, "task", Task)
    task.restore(checkpoint.part("task"))
    return task.deployed(model.eval()).eval()


def load(run: str | Path, checkpoint: int | None = None, trust: list[str] | None = None) -> nn.Module:
    """The trained ``nn.Module`` of a run folder, in evaluation mode. An ensemble's gives mean logits and has ``members``.

    ``checkpoint``: a generation, the last by default. ``trust``: packages other than ours whose classes the saved config
    may make. Raises UserError.
    """
    folder = Path(run)
    config = read_config(folder, trust or [])
    return load_model(folder, config, read_checkpoint(folder, config, checkpoint))
