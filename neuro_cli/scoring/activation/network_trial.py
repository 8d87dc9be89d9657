"""The trial of a network for noise on activations: its layers, the form of their outputs, and the way of passes that serves.

In float64 where the module takes that: rounding alone may part two passes of float32 widely.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import Place
from neuro_cli.scoring.activation.clean_pass import CleanCalls, CleanMode
from neuro_cli.scoring.activation.control import Controls
from neuro_cli.scoring.activation.gate import alive_of
from neuro_cli.scoring.activation.layer_noise import Axes, NoisyLayer, axes_of
from neuro_cli.scoring.activation.marks import with_mark
from neuro_cli.scoring.activation.noisy_pass import scores_with
from neuro_cli.scoring.activation.own_weights import own_weights
from neuro_cli.scoring.base import ScoringSettings
from neuro_cli.scoring.candidate import UNSUPPORTED, Candidate, brief
from neuro_cli.scoring.operators import Unsupported
from neuro_cli.task.base import Batch

log = logging.getLogger(__name__)

EXAMPLES = 3
MEASURED = 128  # most outputs of the last layer for a reward that are measured for control variates: each costs a pass
SCALE = 0.1
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # of the largest score; others 0.1


class LayerForm(NamedTuple):
    """Axes of a layer's outputs, and whether noise is that of an example's own weights."""

    axes: Axes
    weights: bool


@dataclass
class Found:
    """Findings of a trial. ``rewards``: of an example; ``largest``: values of an example in the largest outputs of a layer;
    ``outputs``: of the last layer for a reward, None where one belongs to several.

    ``mapped``: passes side by side; ``whole``: they begin at the examples, for a ``reason``. ``uncontrolled``: reason why there
    are no control variates, None where there may be.
    """

    layers: list[LayerForm]
    widths: tuple[int, ...]
    rewards: int
    largest: int
    outputs: int | None
    mapped: bool = True
    whole: bool = False
    reason: str = ""
    uncontrolled: str | None = None

    @property
    def spaces(self) -> str:
        own = sum(layer.weights for layer in self.layers)
        parts = [f"{count} on {name}" for count, name in ((len(self.layers) - own, "outputs"), (own, "weights")) if count]
        return " and ".join(parts)


def clean_pass(
    module: nn.Module, settings: ScoringSettings, batch: Batch, keep: bool, linked: bool = False
) -> tuple[CleanCalls, Tensor]:
    """The calls of a pass over ``batch`` and its scores (B, T, C) float64, as of :func:`by_reward`.

    ``linked``: with the chain of changes.
    """
    parameters = dict(module.named_parameters())
    places: dict[int, tuple[Tensor, Place]] = {
        id(parameters[place.name]): (parameters[place.name], place) for place in settings.layout.places
    }
    with_mark([batch.inputs, batch.targets])
    with torch.no_grad(), CleanMode(places, keep, linked) as mode:
        scores = settings.task.rewards(module, batch)
    mode.noted.join()
    if linked and scores.requires_grad:
        with torch.enable_grad():
            mode.noted.scores = by_reward(scores)
    return mode.noted, by_reward(scores.detach())


def by_reward(scores: Tensor) -> Tensor:
    """Scores (B, T, C) float64 from those of ``Task.rewards``: of tokens T times each, so that their mean is the example's."""
    return scores.double() * scores.shape[-2] if scores.dim() > 2 else scores.double().unsqueeze(1)


def noisy_layers(calls: CleanCalls, found: Found) -> list[NoisyLayer]:
    """The layers of a pass in the form that the trial found. Raises UserError where the module has other layers now."""
    if len(calls.layers) != len(found.layers):
        raise UserError(f"model: a pass with {len(calls.layers)} layers after one with {len(found.layers)}")
    made = []
    for layer, form in zip(calls.layers, found.layers, strict=True):
        own = own_weights(layer) if form.weights else None
        alive = alive_of(layer, smooth=layer.link is not None)
        made.append(NoisyLayer(layer.raw, form.axes, layer.places, layer.parameters, own, found.rewards, alive, layer.link))
    return made


def tried(settings: ScoringSettings, centre: Tensor, space: str) -> Found:
    """Find the layers and the fastest way of passes. Raises UserError for a network that noise does not reach."""
    try:
        return _tried(settings, centre, space, torch.float64)
    except UserError:
        raise
    except UNSUPPORTED:  # a module that makes tensors of its own float type
        return _tried(settings, centre, space, settings.precision)


def _tried(settings: ScoringSettings, centre: Tensor, space: str, dtype: torch.dtype) -> Found:
    candidate = Candidate(settings.module, settings.layout, dtype, settings.device)
    candidate.flat.copy_(centre)
    module = candidate.ready()
    counts = (max(1, min(EXAMPLES, settings.batch_size) - 1), min(EXAMPLES, settings.batch_size))
    batches = [settings.task.batch(0, 0, count).to(dtype) for count in counts]
    (small, _), (large, scores) = (clean_pass(module, settings, batch, True) for batch in batches)
    found = _forms(small, large, counts, scores.shape[1], space)
    if any(form.axes.fold > 1 for form in found.layers):
        turned, _ = clean_pass(module, settings, Batch(batches[1].inputs.flip(0), batches[1].targets.flip(0)), True)
        for number, (layer, other) in enumerate(zip(large.layers, turned.layers, strict=True)):
            axes = found.layers[number].axes
            if axes.fold > 1 and _strided(axes, layer.raw.detach(), other.raw.detach()):
                found.layers[number] = found.layers[number]._replace(axes=replace(axes, strided=True))
    _say_unreached(settings, large)
    _choose(settings, module, batches[1], found, dtype)
    found.uncontrolled = _uncontrolled(settings, module, batches[1], found)
    return found


def _forms(small: CleanCalls, large: CleanCalls, counts: tuple[int, int], rewards: int, space: str) -> Found:
    """Layers of two passes with other numbers of examples. Raises UserError where outputs do not belong to examples."""
    if not large.layers:
        raise UserError("sampler=activation: the network has no layer with parameters that noise could enter")
    forms, widths, largest, outputs = [], [], 1, 0
    for a, b in zip(small.layers, large.layers, strict=True):
        shapes = tuple(a.raw.shape), tuple(b.raw.shape)
        axes = axes_of(*shapes, counts, rewards) if counts[0] < counts[1] else Axes(0, max(1, b.raw.shape[0]), False)
        if axes is None:
            name = getattr(b.func, "__name__", str(b.func))
            raise UserError(f"sampler=activation: outputs {shapes[1]} of {name} do not belong to {counts[1]} examples")
        simple = axes.examples == 0 and axes.fold == 1
        own = own_weights(b) if simple and space != "outputs" else None
        outputs = b.raw.numel() // counts[1]
        if space == "auto" and own is not None and own.width >= outputs // (rewards if axes.tokens else 1):
            own = None
        if space == "weights" and own is None:
            names = ", ".join(place.name for place in b.places)
            raise ConfigError("sampler.space", space, f"{names} cannot have values of each example's own; choose auto or outputs")
        forms.append(LayerForm(axes, own is not None))
        widths.append(outputs if own is None else own.width)
        largest = max(largest, outputs)
    alone = rewards == 1 or forms[-1].axes.tokens
    return Found(forms, tuple(widths), rewards, largest, outputs // rewards if alone else None)


def _uncontrolled(settings: ScoringSettings, module: nn.Module, batch: Batch, found: Found) -> str | None:
    """Reason why rewards cannot be predicted, None where they can be."""
    try:
        calls, _ = clean_pass(module, settings, batch, found.whole, True)
        layers = noisy_layers(calls, found)
        if calls.scores is None:
            if found.outputs is None or found.outputs > MEASURED:
                return f"needs a fitness with a slope, or a last layer of at most {MEASURED} outputs for each reward"
            last: Tensor | None = torch.zeros(
                layers[-1].examples * found.rewards, found.outputs, device=settings.device, dtype=torch.float32
            )
        else:
            last = None
        Controls(calls.links, settings.threads, settings.device).predict(calls, layers, last, True)
    except (Unsupported, *UNSUPPORTED) as error:
        return f"torch cannot go back through the network: {brief(error)}"
    return None


def _strided(axes: Axes, outputs: Tensor, turned: Tensor) -> bool:
    """Tell whether places of examples that lie far apart are turned where the examples are; neighbours, where both are alike."""

    def error(axes: Axes) -> float:
        return float((axes.forth(outputs).flip(0) - axes.forth(turned)).abs().max())

    return error(replace(axes, strided=True)) < error(axes)


def _say_unreached(settings: ScoringSettings, calls: CleanCalls) -> None:
    """Warn of parameters that no layer uses."""
    reached = {place.name for layer in calls.layers for place in layer.places}
    rest = [place.name for place in settings.layout.places if place.name not in reached]
    if rest:
        settings.warn(f"sampler=activation: these parameters stay as they are, noise does not reach them: {', '.join(rest)}")


def _choose(settings: ScoringSettings, module: nn.Module, batch: Batch, found: Found, dtype: torch.dtype) -> None:
    """Set the fastest way that gives what passes one after the other, from the examples on, give. Raises what those raise."""
    calls, _ = clean_pass(module, settings, batch, True)
    layers = noisy_layers(calls, found)
    generator = torch.Generator().manual_seed(0)
    deltas = {}
    for number, layer in enumerate(layers):
        layer.set_relative()
        noise = torch.randn(2, layer.examples, layer.width, generator=generator, dtype=dtype).to(settings.device)
        deltas[number] = layer.delta(noise, SCALE)

    def rewards() -> Tensor:
        return settings.task.rewards(module, batch)

    wanted = [scores_with(calls, {number: delta}, rewards, False, True) for number, delta in deltas.items()]
    reasons: list[str] = []
    for mapped, whole in ((True, False), (True, True), (False, False)):
        reason = _differs(calls, deltas, rewards, wanted, mapped, whole, module, settings, batch)
        if reason is None:
            found.mapped, found.whole, found.reason = mapped, whole, reasons[0] if reasons else ""
            return
        reasons.append(reason)
    found.mapped, found.whole, found.reason = False, True, reasons[0]


def _differs(
    calls: CleanCalls, deltas: dict[int, Tensor], rewards: Callable[[], Tensor], wanted: list[Tensor], mapped: bool, whole: bool,
    module: nn.Module, settings: ScoringSettings, batch: Batch,
) -> str | None:  # fmt: skip
    """Reason why a way does not give the scores ``wanted``, None where it does."""
    if not whole:
        calls, _ = clean_pass(module, settings, batch, False)
        if calls.overwritten is not None:
            return f"{calls.overwritten} is overwritten"
    try:
        for (number, delta), right in zip(deltas.items(), wanted, strict=True):
            made = scores_with(calls, {number: delta}, rewards, mapped, whole)
            if not (made - right).abs().max() <= TOLERANCE.get(right.dtype, 0.1) * right.abs().max():
                return "the scores differ"
    except (Unsupported, *UNSUPPORTED) as error:
        return brief(error)
    return None
