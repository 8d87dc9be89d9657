"""Base of a cluster's model: the tensors that no step moves. Every peer reads them from its disk; none is sent."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.evolve.identity import cluster_identity
from neuro_cli.evolve.training.model import steps_of
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.build import Parts


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
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def identity_with_base(parts: Parts, config: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of a cluster with the model of ``parts`` at its start; ``config``: of the run."""
    frozen = frozen_tensors(parts.model, parts.layout)
    base = tensors_sha256(frozen) if frozen else None
    return cluster_identity(config, parameters_sha256(steps_of(parts).centre), base)
