"""Modules whose ``train`` or ``eval`` computes numbers from parameters: adapters merged into a weight, fused branches."""

import logging
from functools import partial

import torch
from torch import nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.module.copies import copied, state_of
from neuro_cli.scoring.candidate import brief
from neuro_cli.scoring.isolation import difference, drawing

log = logging.getLogger(__name__)

FACTOR, STEP = 1.5, 0.25  # change of the parameters with which a mode is tried: adapters begin with zeros


def refuse_computed_by_modes(module: nn.Module) -> None:
    """Raise UserError where evaluation mode computes numbers from trainable parameters of ``module``, as no member has its own.

    A member is scored in evaluation mode, which is set before it has its parameters. Only classes with a ``train`` of their own
    are tried.
    """
    own = [part for part in module.modules() if _sets_modes(part)]
    if not own or isinstance(module, torch.jit.ScriptModule):
        return
    before, behind = copied(module), copied(module)
    with torch.no_grad(), drawing(0):
        before.train()
        for parameter in _trainable(before):
            parameter.mul_(FACTOR).add_(STEP)
        wanted = [parameter.clone() for parameter in _trainable(before)]
        try:
            before.eval()
        except Exception as error:  # any kind: the module's own, with parameters that are no user's
            kind = type(own[0]).__name__
            log.warning(
                "model: eval() of %s may compute numbers from its parameters, as it refuses others: %s", kind, brief(error)
            )
            return
    with torch.no_grad(), drawing(0):
        behind.train()
        behind.eval()
        name = difference(before, behind)
        if name is None and not all(map(same, _trainable(before), wanted)):
            name = "a parameter"
    if name is not None:
        raise UserError(
            f"model: eval() of {type(own[0]).__name__} computes {name} from its parameters, and members have parameters of their "
            "own: compute it in forward, or give a module without that (not merged, not fused)"
        )


same = partial(torch.allclose, rtol=0.0, atol=0.0, equal_nan=True)


def _sets_modes(part: nn.Module) -> bool:
    names = ("train", "eval")
    return any(name in vars(part) or getattr(type(part), name) is not getattr(nn.Module, name) for name in names)


def _trainable(module: nn.Module) -> list[torch.Tensor]:
    return [value for value in state_of(module) if isinstance(value, nn.Parameter) and value.requires_grad]
