"""Model of a cluster: applies committed records to it, restores snapshots, and says what all peers must share of it.

The base of a model is the tensors that no step moves. Every peer reads them from its disk; none is sent.
"""

import hashlib
import logging
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import State
from neuro_cli.algo.seed_steps import SeedSteps
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.module.copies import pieces_of
from neuro_cli.core.seeds import text_address
from neuro_cli.evolve.identity import BASE_KEY, cluster_identity
from neuro_cli.evolve.ledger.record import LedgerRecord
from neuro_cli.evolve.peer_ledger import Snapshot
from neuro_cli.evolve.state_transfer import shapes_of
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.build import Parts, make_model
from neuro_cli.runner.initial import ADVICE, Constants
from neuro_cli.sampler.base import Estimator
from neuro_cli.selection.base import Selection, Step

log = logging.getLogger(__name__)

TASK = "task."  # begins the names of the task's tensors in a snapshot; the algorithm's have no prefix


def steps_of(parts: Parts) -> SeedSteps:
    assert isinstance(parts.algo, SeedSteps)
    return parts.algo


def apply(parts: Parts, record: LedgerRecord, head: bytes) -> None:
    """Apply a committed record to the model, with the same bits on every peer, now or in a replay."""
    steps_of(parts).step([moved_by(parts, step) for step in record.steps], head)
    parts.task.absorb(record.iteration, record.means.astype(np.float64), record.members)


def moved_by(parts: Parts, step: Step) -> Tensor:
    """Return the sum (M,) that ``step`` adds to the parameters."""
    return noise_of(parts.distribution.job.sampler, step, parts.layout.size)


def noise_of(sampler: Estimator, step: Step, size: int) -> Tensor:
    """Return the sum (``size``,) of the members' noise, weighted by their coefficients."""
    return sampler.combine(step.weights()[None], (1,), step.iteration, step.members, 0, size)[0]


def snapshot_of(parts: Parts) -> Snapshot:
    """Return a snapshot of the present model."""
    steps = steps_of(parts)
    tensors = {name: tensor.cpu() for name, tensor in steps.state().tensors.items()}
    tensors |= {f"{TASK}{name}": tensor.cpu().clone() for name, tensor in parts.task.state().items()}
    return Snapshot(steps.iteration, steps.head, tensors)


def restore_snapshot(parts: Parts, snapshot: Snapshot) -> None:
    """Restore a :func:`snapshot_of` the model. Raises UserError for one of another model."""
    own = {name: tensor.to(parts.device) for name, tensor in snapshot.tensors.items() if not name.startswith(TASK)}
    if shapes_of(own) != shapes_of(steps_of(parts).state().tensors):
        raise UserError("a snapshot does not fit the model")
    steps_of(parts).restore(State(own, {"iteration": snapshot.iteration, "head": snapshot.head.hex()}))
    parts.task.restore(State(snapshot.tensors).part(TASK.removesuffix(".")))


def first_member(peer: str, iteration: int, parts: Parts) -> int:
    """Return the first member of a peer in an iteration: an address out of 2**32, a function of its name and the iteration."""
    sampler = parts.distribution.job.sampler
    drawn = text_address(f"{peer} {iteration}")
    # leave room for the last one before the end of the addresses; begin at the start of a run of directions that share noise
    drawn = min(drawn, 2**32 - 2 * sampler.directions - (local_iterations(parts) - 1) * _spacing(parts))
    drawn -= drawn % (sampler.noise_period or 1)
    return drawn * _sides(parts)


def local_iterations(parts: Parts) -> int:
    """Return the rounds of tries of a worker between two reports."""
    return int(parts.config.plain["cluster"]["local_iterations"])


def stride(parts: Parts) -> int:
    """Return the number of members of the model from the first of a local iteration to the first of the next."""
    return _spacing(parts) * _sides(parts)


def _spacing(parts: Parts) -> int:
    """Return the directions of a local iteration, up to the next start of a run that shares noise."""
    sampler = parts.distribution.job.sampler
    period = sampler.noise_period or 1
    return -(-sampler.directions // period) * period


def _sides(parts: Parts) -> int:
    return 2 if parts.distribution.job.sampler.antithetic else 1


def check_model(parts: Parts, selection: Selection | None = None) -> None:
    """Raise UserError for a config that seed passing does not support."""
    if selection is not None and not selection.local and local_iterations(parts) > 1:
        allowed = "must be 1, or selection=max: a worker's own steps are the seeds of its best members"
        raise ConfigError("cluster.local_iterations", local_iterations(parts), allowed)
    if not isinstance(parts.algo, SeedSteps):
        raise UserError("algo: neuro evolve has one of its own; what moves the model is chosen by selection=")
    if selection is not None and selection.compares_members and parts.distribution.job.scorer.own_examples:
        allowed = "compares members that have different examples here: use linear_combination"
        raise ConfigError("selection", "max", allowed)
    if selection is not None and selection.needs_pairs and not parts.distribution.job.sampler.antithetic:
        raise ConfigError("sampler.antithetic", False, "selection.shaping shapes mirrored pairs: true")
    if parts.device.type != "cpu":
        log.info("on %s last bits may differ from those of other devices: let all peers compute on one kind", parts.device)


def frozen_tensors(model: nn.Module, layout: ParameterLayout) -> dict[str, Tensor]:
    """Return the frozen parameters and the saved buffers of ``model`` by name; empty where all parameters are evolved."""
    moved, saved = {place.name for place in layout.places}, model.state_dict().keys()
    frozen = {name: tensor for name, tensor in model.named_parameters() if not tensor.requires_grad and name not in moved}
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in saved}
    return {name: tensor.detach() for name, tensor in (frozen | buffers).items()} if frozen else {}


def tensors_sha256(tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of names, types, shapes and bytes of ``tensors``, in the order of the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        for part in pieces_of(tensor.detach().cpu()):
            digest.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def refuse_other_draws(parts: Parts, config: dict[str, Any]) -> None:
    """Raise ConfigError for a model whose constants differ each time it is built: every peer would score another network.

    Not of a model with a base, whose frozen parameters are compared between peers, and which is large.
    """
    if BASE_KEY in config["model"]:
        return
    again = make_model(config)
    try:
        Constants.of(again, made=False).refuse_other(again, parts.constants.scalars())
    except ConfigError as error:
        allowed = f"its buffers, frozen parameters or arrays differ each time it is built, and so between peers: {ADVICE}"
        raise ConfigError("model", type(again).__name__, allowed) from error


def identity_with_base(parts: Parts, config: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of a cluster with the model of ``parts`` at its start; ``config``: of the run."""
    frozen = frozen_tensors(parts.model, parts.layout)
    base = tensors_sha256(frozen) if frozen else None
    return cluster_identity(config, parameters_sha256(steps_of(parts).centre), base)
