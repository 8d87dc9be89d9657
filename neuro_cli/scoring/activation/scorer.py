"""Scoring with noise on activations: one clean pass over all examples of a generation, then passes from a noisy layer on.

Every rank makes the clean pass, for it needs the layers' inputs anyway; draws of groups of layers are shared among the ranks.
Draws are worked out in blocks that do not depend on the ranks, as matrix products of other sizes may round otherwise.

Legend: B examples, T rewards of an example, K draws, G groups of layers, R = B T, S sides, C score columns, M columns.
"""

import logging
import queue
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import ConfigError
from neuro_cli.sampler.activation import MEASURED, Activation, Form, PerturbedLayer
from neuro_cli.scoring.activation.clean_pass import CleanCalls
from neuro_cli.scoring.activation.control import Controls, Prediction
from neuro_cli.scoring.activation.layer_noise import NoisyLayer
from neuro_cli.scoring.activation.network_trial import Found, clean_pass, noisy_layers, tried
from neuro_cli.scoring.activation.noisy_pass import Shown, scores_with, shown_by
from neuro_cli.scoring.base import Scorer, ScoringSettings
from neuro_cli.scoring.batched import chunk_rows
from neuro_cli.task.base import Batch

log = logging.getLogger(__name__)

STEP = 1e-2  # least, in units of sigma, of the differences that measure derivatives by the last outputs


class _Pass:
    """The clean pass of a generation: its calls, its layers, and the scores (B, T, C) float64 of its examples."""

    def __init__(self, generation: int, batch: Batch, calls: CleanCalls, layers: list[NoisyLayer], scores: Tensor) -> None:
        self.generation, self.batch, self.calls, self.layers, self.scores = generation, batch, calls, layers, scores
        self.prediction: Prediction | None = None  # for control variates


class ActivationScorer(Scorer):
    """Scores are differences to the clean pass, (n, C) for one reward of an example each. Raises UserError."""

    examples = 1

    def __init__(self, settings: ScoringSettings, centre: Tensor) -> None:
        super().__init__(settings)
        sampler = settings.sampler
        assert isinstance(sampler, Activation)
        self._sampler = sampler
        self._centre = settings.candidate()
        # a module each, for threads must not meet in one; their parameters are views of one vector, the centre
        self._modules: queue.SimpleQueue[nn.Module] = queue.SimpleQueue()
        for _ in range(settings.threads.count):
            self._modules.put(settings.candidate(shared=self._centre).module)
        self._found: Found = tried(settings, centre, sampler.space)
        sampler.measurable = self._found.outputs is not None and self._found.outputs <= MEASURED
        sampler.attend(Form(settings.batch_size, self._found.rewards, self._found.widths), self)
        rows = sampler.passes * settings.batch_size
        most = chunk_rows(self._found.largest, settings.device, sampler.draws * sampler.groups * rows) // rows
        self._side_by_side = max(
            1, chunk_rows(max(1, self._found.widths[-1]), settings.device, MEASURED * rows) // settings.batch_size
        )
        self._controls: Controls | None = None
        self._restored: dict[str, Tensor] = {}
        self._block = min(sampler.draws, max(1, most))
        self._start = centre
        self._pass: _Pass | None = None
        self._say()

    def _say(self) -> None:
        found, sampler = self._found, self._sampler
        log.info(
            "scoring: noise on %d layers, %s; %d draws of %d %s; %s, %s",
            len(found.layers), found.spaces, sampler.draws, sampler.groups, "group" if sampler.groups == 1 else "groups",
            "each pass begins at its noisy layer" if not found.whole else f"each pass is a whole one ({found.reason})",
            f"{self._block * sampler.passes} passes side by side" if found.mapped else "one pass after the other",
        )  # fmt: skip

    @property
    def population(self) -> int:
        return self._sampler.population

    def state(self) -> dict[str, Tensor]:
        return self._restored if self._controls is None else self._controls.state()  # no generation since a resume

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self._restored, self._controls, self._pass = tensors, None, None

    def layers_of(self, generation: int) -> Sequence[PerturbedLayer]:
        """The layers of a generation's clean pass, with the centre of its scores or, before there are any, the initial one."""
        if self._pass is None or self._pass.generation != generation:
            self._clean(generation, self._start, STEP)
        assert self._pass is not None
        return self._pass.layers

    def reference(self, generation: int) -> np.ndarray:
        assert self._pass is not None
        assert self._pass.generation == generation
        means: np.ndarray = self._pass.scores.mean((0, 1)).cpu().numpy()
        return means

    def _clean(self, generation: int, centre: Tensor, sigma: float) -> _Pass:
        settings, found = self.settings, self._found
        if self._pass is not None:
            self._pass.calls.release()
        self._pass = None  # its graph is as large as the new one's
        self._start = centre
        self._centre.flat.copy_(centre)
        module = self._centre.ready()
        batch = self.task.batch(generation, 0, settings.batch_size).to(settings.precision)
        calls, scores = clean_pass(module, settings, batch, found.whole, self._sampler.control_variates)
        layers = noisy_layers(calls, found)
        if self._sampler.scale == "relative":
            settings.threads.map(NoisyLayer.set_relative, layers)
        clean = _Pass(generation, batch, calls, layers, scores)
        if self._sampler.control_variates:
            self._predict(clean, max(STEP, sigma))  # a fitness of steps changes by no smaller ones than the noise
        self._pass = clean
        return clean

    def _predict(self, clean: _Pass, size: float) -> None:
        """Set the control variates of the layers; that of the last one takes a pass behind it for each output of a reward.

        ``size`` of the changes of those, in units of sigma.
        """
        first = self._controls is None
        if self._controls is None:
            self._controls = Controls(clean.calls.links, self.settings.threads, self.settings.device)
            self._controls.restore(self._restored)
            self._restored = {}
        number = len(clean.layers) - 1
        layer = clean.layers[number]
        outputs, count = layer.size, self._sampler.form.examples
        assert outputs is not None
        parts: dict[int, Tensor] = {}
        each = self._side_by_side  # passes

        def run(low: int) -> None:
            single = torch.eye(outputs, device=self.settings.device)[low : low + each]
            noise = single[:, None, None].expand(-1, count, layer.rewards, -1).reshape(len(single), count, -1)
            step = layer.axes.back(noise * (size * layer.scale), layer.outputs).to(layer.outputs.dtype)
            gains = self._gains(clean, {number: step})[..., 0]
            parts[low] = gains.movedim(0, -1) / (size * layer.scale)

        self.settings.threads.map(run, range(0, outputs, each))
        derivatives = torch.cat([parts[low] for low in sorted(parts)], -1).float()
        clean.prediction = self._controls.predict(clean.calls, clean.layers, derivatives.flatten(0, 1), self._foresees(clean))
        if first:
            log.info("scoring: control variates on %d of %d layers", clean.prediction.count, len(clean.layers))

    def _foresees(self, clean: _Pass) -> bool:
        """Tell whether noise of one reward's outputs changes other rewards, so that each is foreseen from all noise."""
        return self._sampler.form.rewards > 1 or clean.calls.coupled

    def _shown(self, clean: _Pass) -> Shown:
        """What a pass with the first draw's noise in all layers shows of links; every rank makes it."""
        deltas = {}
        for number, layer in enumerate(clean.layers):
            noise = self._sampler.numbers(clean.generation, number, 0, 1)
            deltas[number] = layer.delta(noise, layer.sigma)[0]
        module = self._modules.get()
        try:
            return shown_by(clean.calls, deltas, self._rewards(module, clean.batch), self._found.whole)
        finally:
            self._modules.put(module)

    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        assert part is None  # data_parallel is refused
        sampler, clock = self._sampler, self.settings.clock
        with clock.phase("forward"):
            clean = self._clean(generation, proposal.bases[0], proposal.sigma)
        out = np.empty((len(members), clean.scores.shape[-1]))
        sides = sampler.passes
        each = sides * sampler.rewards  # members of a draw of a group
        first, last = members.start // each, (members.stop - 1) // each
        sigmas = [self._sigma_of(layer, proposal) for layer in clean.layers]
        for layer, sigma in zip(clean.layers, sigmas, strict=True):
            layer.sigma = sigma
        shown: list[Shown] = []

        def run(unit: tuple[int, int] | None) -> None:
            if unit is None:
                shown.append(self._shown(clean))
                return
            block, group = unit
            low, high = block * self._block, min((block + 1) * self._block, sampler.draws)
            made = self._scored(clean, low, high, group, sigmas)
            for draw, rows in zip(range(low, high), made, strict=True):
                start = (draw * sampler.groups + group) * each
                a, b = max(start, members.start), min(start + each, members.stop)
                if a < b:
                    out[a - members.start : b - members.start] = rows[a - start : b - start]

        pairs = {(place // sampler.groups // self._block, place % sampler.groups) for place in range(first, last + 1)}
        self.settings.threads.map(run, [*([None] if self._controls is not None else []), *sorted(pairs)])
        if self._controls is not None:
            self._controls.learn(clean.calls.links, shown[0])
        return out

    def _sigma_of(self, layer: NoisyLayer, proposal: Proposal) -> float:
        """Sigma of a layer's noise. Raises ConfigError where its parameters have several: their noise is one."""
        if proposal.layers is None:
            return proposal.sigma
        factors = {proposal.layers.factors[place.name]: place.name for place in layer.places}
        if len(factors) > 1:
            allowed = f"sampler=activation has one noise for {' and '.join(factors.values())}: give them one sigma"
            raise ConfigError("algo.layers", "{..}", allowed)
        return proposal.sigma * next(iter(factors))

    def _scored(self, clean: _Pass, low: int, high: int, group: int, sigmas: list[float]) -> np.ndarray:
        """Differences (draws, R S, C) of the draws [low, high) of a group, sides of a draw side by side."""
        settings, sampler = self.settings, self._sampler
        begun = time.perf_counter()
        deltas, plain, expected = dict[int, Tensor](), dict[int, Tensor](), torch.zeros((), dtype=torch.float64)
        foreseen = clean.prediction if sampler.control_variates and self._foresees(clean) else None
        for number in sampler.layers_in(group):
            noise = sampler.numbers(clean.generation, number, low, high)
            delta = clean.layers[number].delta(noise, sigmas[number])
            if foreseen is None:
                expected = expected + clean.layers[number].expected(delta)
            plain[number] = delta
            deltas[number] = torch.stack([delta, -delta], 1).flatten(0, 1) if sampler.antithetic else delta
        if foreseen is not None:
            each = [{number: delta[draw] for number, delta in plain.items()} for draw in range(high - low)]
            expected = torch.stack([foreseen.foreseen(part).view(clean.scores.shape[:2]) for part in each])
        drawn = time.perf_counter()
        gains = self._gains(clean, deltas).view(high - low, sampler.passes, *clean.scores.shape)
        if expected.dim():
            gains[:, 0, ..., 0] -= expected
            if sampler.antithetic:
                gains[:, 1, ..., 0] += expected
        gains = gains.flatten(2, 3).transpose(1, 2).flatten(1, 2)
        settings.clock.add("sample", drawn - begun, settings.threads.count)
        settings.clock.add("forward", time.perf_counter() - drawn, settings.threads.count)
        result: np.ndarray = gains.cpu().numpy()
        return result

    def _gains(self, clean: _Pass, deltas: dict[int, Tensor]) -> Tensor:
        """Differences (R, B, T, C) float64 of passes with ``deltas`` (R, ..) to the clean one."""
        module = self._modules.get()
        try:
            made = scores_with(clean.calls, deltas, self._rewards(module, clean.batch), self._found.mapped, self._found.whole)
        finally:
            self._modules.put(module)
        # a mapped pass has no score of its own where noise does not reach it
        times = clean.scores.shape[1]  # as by_reward does with those of the clean pass
        gains: Tensor = (made.double() * times).view(-1, *clean.scores.shape) - clean.scores
        return gains

    def _rewards(self, module: nn.Module, batch: Batch) -> Callable[[], Tensor]:
        return lambda: self.task.rewards(module, batch)


def activation_scorer(settings: ScoringSettings, centre: Tensor) -> Scorer:
    """The scorer of sampler=activation. Raises ConfigError for a task without examples."""
    if settings.task.scored_by != "examples":
        allowed = f"it needs a task with examples; {type(settings.task).__name__} scores episodes"
        raise ConfigError("sampler", "activation", allowed)
    return ActivationScorer(settings, centre)
