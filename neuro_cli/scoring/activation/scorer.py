"""Scoring with noise on activations: one clean pass over all examples of a generation, then passes from a noisy layer on.

Every rank makes the clean pass, for it needs the layers' inputs anyway; draws of groups of layers are shared among the ranks.
Draws are worked out in blocks that do not depend on the ranks, as matrix products of other sizes may round otherwise.

Legend: B examples, T rewards of an example, K draws, G groups of layers, R = B T, S sides, C score columns, M columns.
"""

import logging
import math
import queue
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.threads import Threads
from neuro_cli.sampler.activation import Activation, Form, PerturbedLayer
from neuro_cli.scoring.activation.clean_pass import CleanCalls
from neuro_cli.scoring.activation.control import Controls, Prediction
from neuro_cli.scoring.activation.layer_noise import NoisyLayer
from neuro_cli.scoring.activation.network_trial import MEASURED, Found, by_reward, clean_pass, noisy_layers, tried
from neuro_cli.scoring.activation.noisy_pass import Shown, scores_with, shown_by
from neuro_cli.scoring.base import Scorer, ScoringSettings
from neuro_cli.scoring.batched import pass_rows
from neuro_cli.scoring.hidden import unfused
from neuro_cli.task.base import Batch

log = logging.getLogger(__name__)

MISSED = 0.1  # share of the squares of rewards' changes that predictions may miss and still stand alone
SMALL = 1e-3  # noise that models of a network without steps learn from, in units of its scale; rounding asks for more than less
ROUNDING = 100  # of a reward's change, in units of the float type's: a smaller one says nothing
# most passes, or pairs of them, in the first generation and in a later one that models learn from before corrections are made
FIRST_LESSONS, LESSONS = 40, 4
WATCH = 8  # generations of predictions that stand alone to one look at what they explain
MEMORY = 0.5  # share of those of the generations before that counts
FEW = 80_000  # numbers of noise in a pass of all layers: below it two threads wait for each other's Python more than they gain
STEP = 1e-2  # least, in units of sigma, of the differences that measure derivatives by the last outputs


class _Pass:
    """The clean pass of a generation: its calls, its layers, and the scores (B, T, C) float64 of its examples."""

    def __init__(self, generation: int, batch: Batch, calls: CleanCalls, layers: list[NoisyLayer], scores: Tensor) -> None:
        self.generation, self.batch, self.calls, self.layers, self.scores = generation, batch, calls, layers, scores
        self.prediction: Prediction | None = None  # for control variates
        self.smooth = False  # no step is in it, and every layer has a prediction


class ActivationScorer(Scorer):
    """Scores are differences to the clean pass, (n, C) for one reward of an example each. Raises UserError."""

    examples = 1

    def __init__(self, settings: ScoringSettings, centre: Tensor) -> None:
        super().__init__(settings)
        sampler = settings.sampler
        assert isinstance(sampler, Activation)
        self._sampler = sampler
        self._centre = settings.candidate()
        self._found: Found = tried(settings, centre, sampler.space)
        few = sum(self._found.widths) * settings.batch_size < FEW
        self._threads = Threads(1) if few else settings.threads
        # a module each, for threads must not meet in one; their parameters are views of one vector, the centre
        self._modules: queue.SimpleQueue[nn.Module] = queue.SimpleQueue()
        for _ in range(self._threads.count):
            self._modules.put(settings.candidate(shared=self._centre).module)
        sampler.uncontrolled = self._found.uncontrolled
        sampler.attend(Form(settings.batch_size, self._found.rewards, self._found.widths), self)
        rows = sampler.passes * settings.batch_size
        most = pass_rows(self._found.largest, settings.device, sampler.draws * sampler.groups * rows) // rows
        self._side_by_side = max(
            1, pass_rows(max(1, self._found.widths[-1]), settings.device, MEASURED * rows) // settings.batch_size
        )
        self._controls: Controls | None = None
        self._restored: dict[str, Tensor] = {}
        self._squares: Tensor | None = None  # of what predictions missed in passes that are shown, and of the whole; fading
        self._stood_alone = False
        self._lessons: int | None = None  # passes of an example that models learnt from where they were all, else None
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

    @property
    def scored(self) -> int:
        return self.population if self._lessons is None else self._lessons

    def state(self) -> dict[str, Tensor]:
        if self._controls is None:
            return self._restored  # no generation since a resume
        return self._controls.state() | ({} if self._squares is None else {"control.squares": self._squares})

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self._restored, self._controls, self._pass = tensors, None, None
        self._squares = tensors.get("control.squares")

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
            self._threads.map(NoisyLayer.set_relative, layers)
        clean = _Pass(generation, batch, calls, layers, scores)
        if self._sampler.control_variates:
            self._predict(clean, max(STEP, sigma))  # a fitness of steps changes by no smaller ones than the noise
        self._pass = clean
        return clean

    def _predict(self, clean: _Pass, size: float) -> None:
        """Set the control variates of the layers; ``size`` of the changes that measure those of the last one, times sigma."""
        first = self._controls is None
        if self._controls is None:
            self._controls = Controls(clean.calls.links, self._threads, self.settings.device)
            self._controls.restore(self._restored)
        last = self._measured(clean, size) if clean.calls.scores is None else None
        clean.prediction = self._controls.predict(clean.calls, clean.layers, last, self._foresees(clean) and self._looks(clean))
        if first:
            log.info("scoring: control variates on %d of %d layers", clean.prediction.count, len(clean.layers))
        clean.smooth = clean.calls.smooth and last is None and clean.prediction.count == len(clean.layers)

    def _teach(self, clean: _Pass, generation: int) -> bool:
        """Let models learn; tell whether predictions can stand alone then.

        The noise is that of draws which no fitness is looked at for: what it taught must not meet it again in a correction.
        """
        assert self._controls is not None
        lessons, first = FIRST_LESSONS if self._squares is None else LESSONS, self._sampler.draws
        shown, passes = self._show(clean, first), 1
        for draw in range(first + 1, first + 1 + lessons):
            if self._squares is None or self._alone:  # nothing is measured, or all that need be is learnt
                break
            self._controls.learn(clean.calls.links, shown)
            clean.prediction = self._controls.predict(clean.calls, clean.layers, None, self._foresees(clean))
            shown, passes = self._show(clean, draw), passes + 1
        self._controls.learn(clean.calls.links, shown)
        self._lessons = passes * len(shown) * self._sampler.rewards if self._alone else None
        if self._alone and not self._stood_alone:
            self._stood_alone = True
            log.info("scoring: from generation %d on predictions stand alone where they explain %g %% of fitnesses",
                     generation, 100 * (1 - MISSED))  # fmt: skip
        return self._alone

    def _measured(self, clean: _Pass, size: float) -> Tensor:
        """Derivatives (B T, n) of the rewards by the last layer's outputs, by a pass behind it for each output of a reward."""
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

        self._threads.map(run, range(0, outputs, each))
        return torch.cat([parts[low] for low in sorted(parts)], -1).flatten(0, 1)

    def _foresees(self, clean: _Pass) -> bool:
        """Tell whether noise of one reward's outputs changes other rewards, so that each is foreseen from all noise."""
        return self._sampler.form.rewards > 1 or clean.calls.coupled

    def _looks(self, clean: _Pass) -> bool:
        """Tell whether a generation looks at what predictions explain: while they stand alone not every one does."""
        return not self._alone or clean.generation % WATCH == 0

    def _show(self, clean: _Pass, draw: int) -> list[Shown]:
        """Passes with a draw's noise in all layers, as links show them; every rank makes them.

        Where corrections may end, they say too how much of what noise does to fitnesses the predictions explain.
        """
        deltas = {}
        for number, layer in enumerate(clean.layers):
            noise = self._sampler.numbers(clean.generation, number, draw, draw + 1)
            size = max(SMALL, math.sqrt(torch.finfo(layer.outputs.dtype).eps))
            deltas[number] = layer.delta(noise, size if clean.smooth else layer.sigma)[0]
        made: dict[int, tuple[Tensor, Shown]] = {}

        def run(side: int) -> None:
            module = self._modules.get()
            try:
                signed = deltas if side > 0 else {number: -delta for number, delta in deltas.items()}
                made[side] = shown_by(clean.calls, signed, self._rewards(module, clean.batch), self._found.whole)
            finally:
                self._modules.put(module)

        sides = (1,) if clean.smooth else (1, -1)[: self._sampler.passes]
        self._threads.map(run, sides)
        if clean.smooth and self._sampler.correction == "auto" and self._looks(clean):
            change = (by_reward(made[1][0]) - clean.scores)[..., 0]
            self._measure(change, self._expected(clean, {number: delta[None] for number, delta in deltas.items()})[0])
        return [made[side][1] for side in sides]

    def _measure(self, change: Tensor, expected: Tensor) -> None:
        """Take rewards' ``change`` (B, T) and what was ``expected`` of it, unless that is no more than rounding."""
        parts = torch.stack([(change - expected).square().sum(), change.square().sum()]).cpu()
        rounding = ROUNDING * torch.finfo(self.settings.precision).eps
        if parts[1] < change.numel() * rounding**2:
            return
        self._squares = parts if self._squares is None else self._squares * MEMORY + parts

    @property
    def _alone(self) -> bool:
        """Tell whether predictions are good enough to stand alone."""
        if self._sampler.correction == "always" or self._squares is None:
            return False
        missed, whole = self._squares.tolist()
        return whole > 0 and missed <= MISSED * whole

    def _expected(self, clean: _Pass, deltas: dict[int, Tensor]) -> Tensor:
        """Changes (R, B, T) of rewards that are expected of ``deltas`` (R, ..)."""
        count = len(next(iter(deltas.values())))
        expected = torch.zeros((count, *clean.scores.shape[:2]), dtype=torch.float64, device=clean.scores.device)
        if self._foresees(clean):
            assert clean.prediction is not None
            for row, part in enumerate(expected):
                part += clean.prediction.foreseen({number: delta[row] for number, delta in deltas.items()}).view(part.shape)
            return expected
        for number, delta in deltas.items():
            expected = expected + clean.layers[number].expected(delta)
        return expected

    @unfused()
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
        with clock.phase("forward"):
            alone = self._controls is not None and self._teach(clean, generation)

        def run(unit: tuple[int, int]) -> None:
            block, group = unit
            low, high = block * self._block, min((block + 1) * self._block, sampler.draws)
            made = self._scored(clean, low, high, group, sigmas)
            for draw, rows in zip(range(low, high), made, strict=True):
                start = (draw * sampler.groups + group) * each
                a, b = max(start, members.start), min(start + each, members.stop)
                if a < b:
                    out[a - members.start : b - members.start] = rows[a - start : b - start]

        pairs = {(place // sampler.groups // self._block, place % sampler.groups) for place in range(first, last + 1)}
        if alone:
            out[:] = 0.0  # no difference to what is predicted
        else:
            self._threads.map(run, sorted(pairs))
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
        deltas, plain = dict[int, Tensor](), dict[int, Tensor]()
        for number in sampler.layers_in(group):
            noise = sampler.numbers(clean.generation, number, low, high)
            delta = clean.layers[number].delta(noise, sigmas[number])
            plain[number] = delta
            deltas[number] = torch.stack([delta, -delta], 1).flatten(0, 1) if sampler.antithetic else delta
        drawn = time.perf_counter()
        gains = self._gains(clean, deltas).view(high - low, sampler.passes, *clean.scores.shape)
        if sampler.control_variates:
            expected = self._expected(clean, plain)
            gains[:, 0, ..., 0] -= expected
            if sampler.antithetic:
                gains[:, 1, ..., 0] += expected
        gains = gains.flatten(2, 3).transpose(1, 2).flatten(1, 2)
        settings.clock.add("sample", drawn - begun, self._threads.count)
        settings.clock.add("forward", time.perf_counter() - drawn, self._threads.count)
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
