"""Trial of a network before training: its layers, the axes of their outputs, and the fastest correct way to run passes."""

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from neuro_cli.activation_noise.derivatives.backward_graph import depends_on_steps
from neuro_cli.activation_noise.derivatives.outside_torch import ForeignValues
from neuro_cli.activation_noise.noise.layer_noise import Axes, NoisyLayer, axes_of, real
from neuro_cli.activation_noise.noise.mixing import SCALES, examples_mix, noisy_centre
from neuro_cli.activation_noise.noise.noisy_pass import noisy_scores
from neuro_cli.activation_noise.noise.weight_noise import weight_noise
from neuro_cli.activation_noise.prediction import ResponseModels, RewardPredictor
from neuro_cli.activation_noise.recording.clean_pass import PassRecord, RecordingMode
from neuro_cli.activation_noise.recording.module_pass import ModulePass
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import Place
from neuro_cli.core.machine.memory import give_back_memory
from neuro_cli.core.module.torch_errors import GRADIENTS
from neuro_cli.scoring.base import PassSettings
from neuro_cli.scoring.candidate import UNSUPPORTED, brief
from neuro_cli.scoring.passes.example_marks import tensors, with_mark
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.outputs import alike
from neuro_cli.scoring.tolerance import in_float64, tolerance
from neuro_cli.scoring.traces import with_noise
from neuro_cli.scoring.trial import is_heavy
from neuro_cli.task.base import Batch

EXAMPLES = 3
MEASURED = 128  # most outputs a reward of a last layer that is measured for control variates: each costs a pass
WAYS = (  # passes side by side, complete, replayed: the fastest way first
    (True, False, True), (True, False, False), (True, True, False), (False, False, True), (False, False, False),
    (False, True, False),
)  # fmt: skip


class LayerPlan(NamedTuple):
    """Axes of a layer's outputs, and whether its noise is on each example's own weights."""

    axes: Axes
    on_weights: bool


@dataclass
class NetworkPlan:
    """Results of a trial. ``rewards``: number for an example; ``largest``: most values of an example in a layer's outputs.

    ``mapped``: passes run side by side. ``complete``: they begin at the examples, for a ``reason``. ``replayed``: they repeat the
    recorded calls without the module. ``uncontrolled``: reason why control variates are impossible, None where they are
    possible. ``smooth``: rewards have a slope everywhere, as far as torch shows it. ``mixed``: noise on an example changes other
    examples' rewards.
    """

    layers: list[LayerPlan]
    widths: tuple[int, ...]
    rewards: int
    largest: int
    mapped: bool = True
    complete: bool = False
    replayed: bool = False
    reason: str = ""
    uncontrolled: str | None = None
    smooth: bool = False
    mixed: bool = False

    @property
    def way(self) -> tuple[bool, bool, bool]:
        """Return whether passes run side by side, are complete, and are replayed."""
        return self.mapped, self.complete, self.replayed

    @property
    def spaces(self) -> str:
        """Number of layers with noise on outputs and on weights, in words."""
        on_weights = sum(layer.on_weights for layer in self.layers)
        parts = [(len(self.layers) - on_weights, "outputs"), (on_weights, "weights")]
        return " and ".join(f"{count} on {name}" for count, name in parts if count)


def record_pass(source: ModulePass, copy: bool, backward: bool = False) -> tuple[PassRecord, Tensor]:
    """Run a pass of ``source``: its record, and its scores (B, T, C) float64 as :func:`by_reward` has them.

    ``copy``: later calls may overwrite arguments and outputs. ``backward``: with a backward graph.
    """
    module, settings, batch = source
    parameters = dict(module.named_parameters())
    places: dict[int, tuple[Tensor, Place]] = {
        id(parameters[place.name]): (parameters[place.name], place) for place in settings.layout.places
    }
    with_mark([batch.inputs, batch.targets])
    foreign = ForeignValues(module, len(tensors([batch.inputs])[0]))
    with torch.no_grad(), source.state(), RecordingMode(places, foreign, copy, backward) as mode:
        mode.record.result = scores = source.rewards()
    mode.record.join_layers()
    if backward and scores.requires_grad:
        with torch.enable_grad():
            mode.record.scores = by_reward(scores)
        mode.record.smooth = not depends_on_steps(scores)
    return mode.record, by_reward(scores.detach())


def by_reward(scores: Tensor) -> Tensor:
    """Return (B, T, C) float64 from the scores of ``Task.rewards``. Tokens' are times T, so that their mean is the example's."""
    return scores.double() * scores.shape[-2] if scores.dim() > 2 else scores.double().unsqueeze(1)


def noisy_layers(record: PassRecord, plan: NetworkPlan, relative: bool) -> list[NoisyLayer]:
    """Return the layers of a pass as planned; ``relative``: noise has the scale of each layer's outputs.

    Raises UserError where the module has other layers than in the trial.
    """
    if len(record.layers) != len(plan.layers):
        raise UserError(f"model: a pass with {len(record.layers)} layers after one with {len(plan.layers)}")
    return [NoisyLayer(step, *layer, plan.rewards, relative) for step, layer in zip(record.layers, plan.layers, strict=True)]


def plan_network(settings: PassSettings, centre: Tensor, space: str) -> NetworkPlan:
    """Try the network. Raises UserError for one that noise does not reach.

    One with many frozen parameters is tried in float32, since a copy of them in float64 takes more memory than the training.
    """

    def plan(dtype: torch.dtype) -> NetworkPlan:
        return _Trial(settings, centre, dtype).plan(space)

    heavy = is_heavy(settings.module)
    try:
        made = plan(torch.float32) if heavy else in_float64(plan, settings.precision)
    except RuntimeError as error:
        if GRADIENTS in str(error):
            raise UserError("sampler=activation: its noise does not follow a derivative that a pass takes") from error
        raise
    if heavy:
        give_back_memory()
    return made


class _Trial:
    """A few passes of the network at the initial centre."""

    def __init__(self, settings: PassSettings, centre: Tensor, dtype: torch.dtype) -> None:
        self._settings, self._centre, self._dtype = settings, centre, dtype
        self._module = settings.module_at(centre, dtype=dtype)
        self._counts = (max(1, min(EXAMPLES, settings.batch_size) - 1), min(EXAMPLES, settings.batch_size))
        self._batch = settings.few(EXAMPLES, dtype)
        self._source = ModulePass(self._module, settings, self._batch)

    def _record(
        self, batch: Batch, copy: bool = True, backward: bool = False, module: nn.Module | None = None
    ) -> tuple[PassRecord, Tensor]:
        return record_pass(ModulePass(module or self._module, self._settings, batch), copy, backward)

    def plan(self, space: str) -> NetworkPlan:
        """Plan the passes, with noise in ``space``."""
        small, _ = self._record(self._settings.few(self._counts[0], self._dtype))
        large, scores = self._record(self._batch)
        plan = self._layer_plans(small, large, scores.shape[1], space)
        self._set_strides(plan, large)
        self._warn_unreached(large)
        del small, large  # each holds all results of a pass
        self._choose_way(plan)
        plan.mixed = self._counts[1] > 1 and self._mixes(plan)
        plan.uncontrolled = self._uncontrolled(plan)
        return plan

    def _layer_plans(self, small: PassRecord, large: PassRecord, rewards: int, space: str) -> NetworkPlan:
        """Plan the layers from passes over two numbers of examples. Raises UserError where outputs belong to no example."""
        if not large.layers:
            raise UserError("sampler=activation: the network has no layer with parameters that noise could enter")
        if len(small.layers) != len(large.layers):  # also where a cache of the first pass answers for the second
            raise UserError(f"model: a pass with {len(large.layers)} layers after one with {len(small.layers)}")
        counts, layers, widths, largest = self._counts, [], [], 1
        for a, b in zip(small.layers, large.layers, strict=True):
            shapes = tuple(a.raw.shape), tuple(b.raw.shape)
            axes = axes_of(*shapes, counts, rewards) if counts[0] < counts[1] else Axes(0, max(1, b.raw.shape[0]), False)
            if axes is None:
                name = getattr(b.func, "__name__", str(b.func))
                raise UserError(f"sampler=activation: outputs {shapes[1]} of {name} do not belong to {counts[1]} examples")
            if b.inner:  # noise at one step changes the rewards of all later ones
                axes = replace(axes, tokens=False)
            simple = axes.examples == 0 and axes.fold == 1
            own = weight_noise(b) if simple and space != "outputs" else None
            outputs = real(b.raw.detach()).numel() // counts[1]
            if space == "auto" and own is not None and own.width >= outputs // (rewards if axes.tokens else 1):
                own = None
            if space == "weights" and own is None:
                names = ", ".join(place.name for place in b.places)
                allowed = f"{names} cannot have values of each example's own; choose auto or outputs"
                raise ConfigError("sampler.space", space, allowed)
            layers.append(LayerPlan(axes, own is not None))
            widths.append(outputs if own is None else own.width)
            largest = max(largest, outputs)
        return NetworkPlan(layers, tuple(widths), rewards, largest)

    def _set_strides(self, plan: NetworkPlan, record: PassRecord) -> None:
        """Set which outputs have the positions of an example far apart, by a pass over the examples in reverse order.

        If outputs are all equal, from equal examples or weights of zero, noise is added to both. Raises UserError if they stay
        equal.
        """
        folded = [number for number, layer in enumerate(plan.layers) if layer.axes.fold > 1]
        if not folded:
            return
        strided = self._strided(plan, record, self._record(_reversed(self._batch))[0])
        if None in strided.values():
            noisy, module = with_noise(self._batch), self._at_noisy_centre()
            (one, _), (other, _) = (self._record(batch, module=module) for batch in (noisy, _reversed(noisy)))
            shown = self._strided(plan, one, other)
            strided = {number: shown[number] if value is None else value for number, value in strided.items()}
        for number in folded:
            if strided[number] is None:
                reason = f"the outputs of layer {number + 1} are all equal and do not show which belong to an example"
                raise UserError(f"sampler=activation: {reason}: the first batch needs examples that differ")
            if strided[number]:
                axes = plan.layers[number].axes
                plan.layers[number] = plan.layers[number]._replace(axes=replace(axes, strided=True))

    def _strided(self, plan: NetworkPlan, record: PassRecord, reverse: PassRecord) -> dict[int, bool | None]:
        """Return for each folded layer whether positions lie far apart, None where the outputs do not show it."""
        steps = zip(plan.layers, record.layers, reverse.layers, strict=True)
        return {
            number: _strided(layer.axes, step.raw.detach(), other.raw.detach())
            for number, (layer, step, other) in enumerate(steps)
            if layer.axes.fold > 1
        }

    def _at_noisy_centre(self) -> nn.Module:
        return self._settings.module_at(noisy_centre(self._centre), dtype=self._dtype)

    def _mixes(self, plan: NetworkPlan) -> bool:
        module = self._at_noisy_centre()
        record, _ = self._record(self._batch, plan.complete, module=module)
        source = ModulePass(module, self._settings, self._batch)
        return examples_mix(record, noisy_layers(record, plan, True), source, plan.way)

    def _warn_unreached(self, record: PassRecord) -> None:
        """Warn of parameters that no layer uses."""
        reached = {place.name for layer in record.layers for place in layer.places}
        rest = [place.name for place in self._settings.layout.places if place.name not in reached]
        if rest:
            names = ", ".join(rest)
            self._settings.warn(f"sampler=activation: these parameters stay as they are, noise does not reach them: {names}")

    def _choose_way(self, plan: NetworkPlan) -> None:
        """Set the fastest way with the scores of complete passes one after the other. Raises what those raise."""
        record, scores = self._record(self._batch)
        self._alone = self._scores_alone()
        if not self._agrees(scores):
            raise UserError(
                "sampler=activation: calls of torch one by one do not give the scores that the network gives as it is"
            )
        for scale in SCALES if scores.isfinite().all() else SCALES[:1]:
            try:
                noisy = self._noise(record, plan, scale)
                targets = [noisy_scores(record, part, self._source, False, True, False) for part in noisy]
            except (Unsupported, ValueError):  # a module or a loss may refuse what the noise makes of its numbers
                if scale == SCALES[-1]:
                    raise
                continue
            if all(target.isfinite().all() for target in targets):
                break
        reasons: list[str] = []
        for way in WAYS:
            plan.mapped, plan.complete, plan.replayed = way
            plan.reason = reasons[0] if reasons else ""
            if way == WAYS[-1]:
                return
            reason = self._mismatch(record, noisy, targets, plan)
            if reason is None:
                return
            reasons.append(reason)

    def _scores_alone(self) -> Tensor:
        """Return the scores of a pass that nothing records."""
        with torch.no_grad(), self._source.state():
            return by_reward(self._source.rewards())

    def _agrees(self, scores: Tensor) -> bool:
        """Return whether scores of a recorded pass are those of the unrecorded network; diverged ones are left to the run."""
        return alike(scores.nan_to_num(), self._alone.nan_to_num(), tolerance(scores.dtype))

    def _noise(self, record: PassRecord, plan: NetworkPlan, scale: float) -> list[dict[int, Tensor]]:
        """Return noise in the last 1, 2, 4, .. layers: each layer's is in one of these; single layers would take L passes."""
        generator = torch.Generator().manual_seed(0)
        deltas = {}
        for number, layer in enumerate(noisy_layers(record, plan, True)):
            noise = torch.randn(2, layer.examples, layer.width, generator=generator, dtype=self._dtype)
            deltas[number] = layer.delta(noise.to(self._settings.device), scale)
        counts = [*itertools.takewhile(len(deltas).__gt__, (1 << power for power in itertools.count())), len(deltas)]
        return [{number: deltas[number] for number in list(deltas)[-count:]} for count in counts]

    def _mismatch(
        self, record: PassRecord, noisy: list[dict[int, Tensor]], targets: list[Tensor], plan: NetworkPlan
    ) -> str | None:
        """Return the reason why the plan's way does not give the scores ``targets`` of passes with deltas, None where it does."""
        try:
            if not plan.complete:
                record, scores = self._record(self._batch, copy=False)
                overwritten = record.overwritten or record.stale or (None if plan.replayed else record.rewritten)
                if overwritten is not None:
                    return f"{overwritten} is overwritten"
                if plan.replayed and not record.replayable:
                    return "Python reads numbers of the examples"
                if not self._agrees(scores):
                    return "the scores without noise differ"
            for deltas, target in zip(noisy, targets, strict=True):
                scores = noisy_scores(record, deltas, self._source, *plan.way)
                if not alike(scores, target, tolerance(target.dtype)):
                    return "the scores differ"
        except (Unsupported, *UNSUPPORTED) as error:
            return brief(error)
        return None

    def _uncontrolled(self, plan: NetworkPlan) -> str | None:
        """Return the reason why rewards cannot be predicted, None where they can be."""
        settings, record = self._settings, None
        try:
            record, _ = self._record(self._batch, plan.complete, True)
            layers, last = noisy_layers(record, plan, True), None
            steps = record.cut or not record.smooth or record.scores is None
            plan.smooth = not steps and not any(call.foreign for call in record.calls)
            if record.scores is None:
                outputs = layers[-1].outputs_a_reward
                if outputs is None or outputs > MEASURED:
                    return f"needs a fitness with a slope, or a last layer of at most {MEASURED} outputs for each reward"
                rows = layers[-1].examples * plan.rewards
                last = torch.zeros(rows, outputs, device=settings.device, dtype=torch.float32)
            ResponseModels().attach(record.nodes, settings.device)
            predictor = RewardPredictor(record, layers, last, True)
            if plan.rewards > 1 or plan.mixed:  # predictions then take a second derivative, which some calls lack
                predictor.predict({number: torch.zeros_like(step.raw) for number, step in enumerate(record.layers)})
        except (Unsupported, *UNSUPPORTED) as error:
            return f"torch cannot go back through the network: {brief(error)}"
        finally:
            if record is not None:
                record.release()
        return None


def _reversed(batch: Batch) -> Batch:
    """Return the examples in reverse order."""
    inputs, targets = tree_map_only(Tensor, lambda rows: rows.flip(0), (batch.inputs, batch.targets))
    return replace(batch, inputs=inputs, targets=targets)


def _strided(axes: Axes, outputs: Tensor, reverse: Tensor) -> bool | None:
    """Return whether outputs of examples in ``reverse`` order agree better with positions that lie far apart; None: as well."""

    def error(axes: Axes) -> float:
        return float((axes.to_rows(outputs).flip(0) - axes.to_rows(reverse)).abs().max())

    far, near = error(replace(axes, strided=True)), error(axes)
    return None if far == near else far < near
