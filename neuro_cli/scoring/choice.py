"""Chooses the scorer of a run by ``Task.scored_by`` and, for examples, by model, sampler and device. The log names it."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.module.own_numbers import NotItsOwnError
from neuro_cli.language.blocks import BlockLinear
from neuro_cli.scoring.base import PopulationScorer, ScoringSettings
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.candidate import brief
from neuro_cli.scoring.chunk_size import may_share_passes, most_products
from neuro_cli.scoring.episodes import EpisodeScorer
from neuro_cli.scoring.isolation import drawing
from neuro_cli.scoring.members import MemberScorer

log = logging.getLogger(__name__)


def example_scorer(settings: ScoringSettings, centre: Tensor) -> PopulationScorer:
    """Return the faster of two: many members in one forward pass where the module can be scored so, else one by one.

    Many at once: on a GPU, and on a CPU for samplers that reuse noise, when a member has few examples or its noise needs no
    second product, and for members of few products (:mod:`neuro_cli.scoring.chunk_size`). A function of the settings, never of a
    clock: all ranks must choose alike.
    """
    if any(isinstance(part, _DropoutNd) for part in settings.module.modules()):
        log.info("the model's dropout is off while candidates are scored")
    _refuse_lone_values(settings, centre)
    if not may_share_passes(settings) or _has_many_products(settings, centre):
        return MemberScorer(settings, centre)
    try:
        batched = BatchedScorer(settings, centre)
    except NotItsOwnError:
        raise
    except Exception as error:  # any kind: torch's, or the module's own
        settings.say_slower(str(brief(error)))
        return MemberScorer(settings, centre)
    if batched.slower:
        log.info("one forward pass for many members would be slower here: a member has many products for each of its weights")
        return MemberScorer(settings, centre)
    return batched


def _has_many_products(settings: ScoringSettings, centre: Tensor) -> bool:
    """Return whether linear layers and convolutions alone have more products than members that share passes on a CPU may have.

    A trial would count them too, but load compiled loops first.
    """
    if settings.device.type != "cpu" or settings.few_examples:
        return False
    module, products = settings.module_at(centre), list[int]()

    def count(part: nn.Linear | BlockLinear | _ConvNd, _: Any, output: Any) -> None:
        products.append(output.numel() * (part.in_features if isinstance(part, BlockLinear) else part.weight[0].numel()))

    for part in module.modules():
        if isinstance(part, nn.Linear | BlockLinear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
            part.register_forward_hook(count)
    with torch.no_grad(), drawing(0), suppress(Exception):  # the trial reports whatever it raises
        settings.task.score(module, settings.few(1).clone())
    return sum(products) * settings.examples > most_products(settings)


def scorer_under_autocast(settings: ScoringSettings, centre: Tensor) -> PopulationScorer:
    """Return :func:`scorer_of` for a caller's autocast, which rounds a member's products and not the noise of a shared pass.

    So small networks, which share passes for speed alone, do not share any.
    """
    if settings.device.type == "cpu" and not settings.few_examples:
        return MemberScorer(settings, centre)
    return scorer_of(settings, centre)


def _refuse_lone_values(settings: ScoringSettings, centre: Tensor) -> None:
    """Raise ConfigError if batch norm has a single value for each channel of a member, which cannot be normalised."""
    if settings.examples > 1 or not any(isinstance(part, _BatchNorm) for part in settings.module.modules()):
        return
    module, lone = settings.module_at(centre), list[str]()

    def note(name: str, _: nn.Module, inputs: tuple[Tensor]) -> None:
        if inputs[0].numel() == inputs[0].shape[1]:
            lone.append(name)

    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.training:
            part.register_forward_pre_hook(partial(note, name))
    with torch.no_grad(), suppress(ValueError):  # torch raises it then
        module(settings.few(1).inputs)
    if lone:
        reason = f"batch norm {lone[0]} needs more than one example for each member, it has one value for each channel"
        raise ConfigError(settings.task.batch_key, settings.batch_size, reason)


# keyed by ``Task.scored_by``: tasks lie below this package and cannot name its classes
SCORERS: dict[str, Callable[[ScoringSettings, Tensor], PopulationScorer]] = {
    "examples": example_scorer,
    "episodes": EpisodeScorer,
    "batch": MemberScorer,
}


def scorer_of(settings: ScoringSettings, centre: Tensor) -> PopulationScorer:
    """Return the scorer of members that are networks. Raises ConfigError for a task of an unknown kind."""
    task = settings.task
    return SCORERS[one_of(f"{type(task).__name__}.scored_by", task.scored_by, tuple(SCORERS))](settings, centre)
