"""Loading of a run folder's config, checkpoints and model."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.current_folder import refuse_settings
from neuro_cli.core.module.copies import own_memory, state_of
from neuro_cli.factory.instantiate import make
from neuro_cli.factory.own_code import let_import
from neuro_cli.factory.script_objects import is_made, placed, refuse_made
from neuro_cli.factory.trust import refuse_untrusted
from neuro_cli.run_folder.checkpoint import Checkpoint, CheckpointStore
from neuro_cli.run_folder.config import config_file, saved_config
from neuro_cli.run_folder.declaration import declared_inputs
from neuro_cli.run_folder.identity import refuse_other
from neuro_cli.run_folder.short_names import folder_of
from neuro_cli.runner.build import form_of, make_model
from neuro_cli.runner.ensemble.members import JointPrediction, load_members
from neuro_cli.runner.initial import Constants
from neuro_cli.runner.vote import VOTES, loaded_vote, read_votes
from neuro_cli.task.base import Task
from neuro_cli.task.inputs import ImageHook, Inputs

# root keys that every command reads, and those that a resume needs too
NEEDED = {"distribution", "sampler", "population", "batch_size", "layout", "precision", "device", "threads"}
RESUMED = {"fabric", "logger", "generations", "ranks", "time_limit", "checkpoint", "evaluate"}
MODULE = ("model", "task")  # groups that a trained network is made from


def read_config(
    run: Path,
    trust: list[str] | None,
    objects: Mapping[str, Any] | None = None,
    verb: str = "resume",
    groups: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Read the resolved config of a training run's folder. Raises UserError for another folder.

    Instantiating the classes that a saved config names runs their code, so classes of other packages than ours and torch
    need their package in ``trust`` (None: all are trusted). ``objects``, by group, take the place of those that a script made;
    ``verb`` needs all of them, or those of ``groups``.
    """
    config = placed(training_config(run), objects or {})
    if "loop" in config and verb in ("resume", "evaluate"):
        raise UserError(f"{run}: a loop of a script, which has the fitness: Evolution(folder=...) there continues it")
    lacking = sorted((NEEDED | (RESUMED if verb == "resume" else set())) - config.keys())
    if lacking:
        raise UserError(f"{config_file(run)}: it has no {', '.join(lacking)}: it was cut, or edited")
    refuse_made(run, config, config if groups is None else groups, verb)
    if trust is None:
        let_import()
    else:
        refuse_settings(trust)
        refuse_untrusted(config, trust)
    return config


def training_config(run: Path) -> dict[str, Any]:
    """Return the saved config of a training run's folder, unchecked: make no object of it. Raises UserError."""
    config = saved_config(run)
    if not {"task", "model", "algo", "seed"} <= config.keys():
        raise UserError(f"{run}: not a neuro training run: its config lacks task, model, algo or seed")
    return config


def read_checkpoint(run: Path, config: Mapping[str, Any], generation: int | str | None) -> Checkpoint:
    """Read a verified checkpoint of the run, the last one by default. Raises UserError if it is of another run."""
    checkpoint = CheckpointStore(run, keep=1).load(generation)
    refuse_other(config, checkpoint.scalars["identity"])
    if checkpoint.shards:
        return checkpoint  # an ensemble compares its networks when it makes them
    size, saved = ParameterLayout(form_of(config)).size, checkpoint.tensors["parameters"].numel()
    if size != saved:
        target = config["model"]["_target_"]
        raise UserError(f"model._target_={target}: it has {size} parameters now, the run's checkpoint {saved}; resume keeps it")
    return checkpoint


def load_model(run: Path, config: Mapping[str, Any], checkpoint: Checkpoint) -> nn.Module:
    """Load the trained module in evaluation mode, on the CPU; an ensemble gives the mean of its members' outputs."""
    if checkpoint.shards:
        return JointPrediction(load_members(config, checkpoint)).eval()
    model = make_model(config)
    Constants.of(model, is_made(config["model"])).refuse_other(model, checkpoint.scalars, restored=True)
    layout = ParameterLayout(model, checkpoint.scalars.get("channels_last", True))
    layout.load(model, checkpoint.tensors["parameters"])
    own_memory(state_of(model))
    for parameter in model.parameters():
        if parameter.requires_grad:  # products round by the order of the flat vector
            parameter.data = parameter.data.contiguous()
    buffers = dict(model.named_buffers())
    with torch.no_grad():
        for name, tensor in checkpoint.tensors.items():
            if name.startswith("buffers."):
                buffers[name.removeprefix("buffers.")].copy_(tensor)
    if "algo.addresses" in checkpoint.tensors:
        model = loaded_vote(model.eval(), layout, config, checkpoint)
    task = make(config, "task", Task)
    task.restore(checkpoint.part("task"))
    return task.deployed(model.eval()).eval()


def with_inputs(module: nn.Module, inputs: Inputs | None) -> nn.Module:
    """Return ``module``, which also takes images if ``inputs`` are images."""
    if inputs is not None and inputs.images:
        module = Hookable(module) if isinstance(module, torch.jit.ScriptModule) else module
        module.register_forward_pre_hook(ImageHook(inputs))
    return module


class Hookable(nn.Module):
    """Wrapper of a scripted module, ``inner``, which takes no hooks itself."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any) -> Any:
        return self.inner(*inputs)


def load(run: str | Path, checkpoint: int | str | None = None, trust: list[str] | None = None, **objects: Any) -> nn.Module:
    """Load the trained ``nn.Module`` of the folder ``run``, in evaluation mode; an ensemble gives mean logits.

    It takes floating-point inputs. A network that was trained on images also takes tensors (B, C, H, W) of uint8, pictures,
    lists of pictures or of files, and prepares them as training did.

    ``checkpoint``: a generation or "best", the last by default. ``trust``: packages other than ours whose classes the
    saved config may name. ``objects``: the model and the task, where a script gave the run objects. Raises UserError.

    A file ``NAME.votes`` as ``run`` gives the vote of its members around ``model``, by default the base that the file names.
    """
    if Path(run).suffix == VOTES and not Path(run).is_dir():
        if checkpoint is not None or objects.keys() - {"model"}:
            raise UserError(f"{run}: a file of voters takes trust and model")
        vote, inputs = read_votes(Path(run), trust or [], objects.get("model"))
        return with_inputs(vote, inputs)
    folder = folder_of(Path(run))
    config = read_config(folder, trust or [], objects, "load", MODULE)
    return with_inputs(load_model(folder, config, read_checkpoint(folder, config, checkpoint)), declared_inputs(folder))
