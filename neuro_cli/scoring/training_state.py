"""Warnings of differences to back-propagation in what a training changes.

State that layers change only in training mode, such as spectral norm's power iteration, stays. Rows of ``padding_idx`` evolve.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from neuro_cli.scoring.base import PassSettings
from neuro_cli.scoring.isolation import differences, drawing

TRIED = 2  # examples


def say_training_state(settings: PassSettings, centre: Tensor) -> None:
    """Warn of state that changes in training mode but not while members are scored.

    Known layers of torch are recognised. A module with further buffers has one pass in training mode, in a copy.
    """
    module = settings.module
    names = list(_known(module))
    parts = [part for part in module.modules() if not isinstance(part, _BatchNorm)]  # norms have their own rule
    examples = settings.task.scored_by == "examples"
    if not names and examples and any(part._buffers for part in parts):
        names = _found(settings, centre)
    if names:
        settings.warn(f"model: it stays as given, since it moves in training mode alone: {', '.join(names)}")


def say_padding_rows(settings: PassSettings) -> None:
    """Warn of embeddings whose row of ``padding_idx`` evolves: back-propagation has no gradient for it."""
    rows = [
        f"row {part.padding_idx} of {name or type(part).__name__}"
        for name, part in settings.module.named_modules()
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.padding_idx is not None and part.weight.requires_grad
    ]
    if rows:
        settings.warn(f"model: padding_idx evolves, unlike with back-propagation; mask padded places: {', '.join(rows)}")


def _known(module: nn.Module) -> Iterator[str]:
    for name, part in module.named_modules():
        hooked = any(isinstance(hook, SpectralNorm) for hook in part._forward_pre_hooks.values())
        if hooked or isinstance(part, _SpectralNorm):
            yield f"the power iteration of spectral_norm ({name or type(part).__name__})"
        elif isinstance(part, _InstanceNorm) and part.track_running_stats and part.training:
            yield f"the running statistics of {name or type(part).__name__}"


def _found(settings: PassSettings, centre: Tensor) -> list[str]:
    """Return the names of what a pass moves in training mode and not in the mode in which members are scored."""
    moved = []
    for training in (True, False):
        fresh, used = settings.candidate().module, settings.module_at(centre)
        for module in (fresh, used) if training else ():
            for part, given in zip(module.modules(), settings.module.modules(), strict=True):
                part.training = given.training and not isinstance(part, _BatchNorm)
        try:
            with torch.no_grad(), drawing(0):
                settings.task.score(used, settings.few(TRIED).clone())
        except Exception:  # a module may need more than its input in training mode
            return []
        moved.append(list(differences(fresh, used, {})))
    return [name for name in moved[0] if name not in moved[1]]
