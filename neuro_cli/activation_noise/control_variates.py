"""Control variates: predict the effect of noise on a fitness, subtract it, and add its expectation to the estimate.

Noise e on a layer's outputs changes an example's reward r by about <g, e>, g the reward's derivative by the outputs. For any p
that does not depend on e, the estimate ``p + (r - <p, e>) e`` has the mean of ``r e``, and the part of g that p predicts adds no
variance. p comes from the backward graph (see :mod:`backward_graph`), from the rewards or, where those are step functions,
from the last layer: then a pass for each of its outputs measures the derivative. The graph's response models are read off
for unit inputs in place of a call's own, where it is linear in them. Other calls, and steps, are learnt from passes with noise in
all layers at once.

Akrout, Wilson, Humphreys, Lillicrap and Tweed, "Deep learning without weight transport", NeurIPS 2019, learn feedback weights
from responses to noise ("weight mirrors"), and Lansdell, Prakash and Kording, "Learning to solve the credit assignment
problem", ICLR 2020, from rewards. Both replace the estimate by the feedback, with its bias; here the estimate corrects it and
stays unbiased.

Legend: B examples, T rewards of an example, n outputs of a layer for one reward, R passes side by side.
"""

import logging
import math

import torch
from torch import Tensor

from neuro_cli.activation_noise.noise.addresses import Addresses
from neuro_cli.activation_noise.noise.noisy_pass import ObservedChanges
from neuro_cli.activation_noise.passes import CleanPass, Passes
from neuro_cli.activation_noise.prediction import ResponseModels, RewardPredictor
from neuro_cli.activation_noise.trial import MEASURED
from neuro_cli.scoring.chunk_size import pass_rows

log = logging.getLogger(__name__)

UNEXPLAINED = 0.1  # share of the squares of rewards' changes that predictions may leave unexplained and still suffice
HALF = 0.5  # the same if corrections are noisier than that: predictions are used alone, but continue to learn
SMALL = 1e-3  # noise of fits to a smooth network, in units of its scale; half the float type's digits if that is more
ROUNDING = 100  # least change of a reward that a measurement uses, in units of the float type's precision
FIRST_FITS, FITS = 40, 4  # most fits of the models in the first generation, and in a later one, before corrections are computed
DIGITS = 16  # least noise of a repeated check, in units of the float type's precision: outputs must not round it away
BEYOND = 10  # change of a reward in it, in units of what counts as rounding
COUPLED = 16  # fits for each check where examples change each other's rewards: a check then costs as much as several fits
CHECK_EVERY, RARELY = 8, 64  # least and most generations between two checks of predictions that suffice
MEMORY = 0.5  # weight of the checks before
STEP = 1e-2  # least change, in units of sigma, by which a derivative by the last layer's outputs is measured


class Learnt:
    """Models that an estimator has learnt for its predictions, and how well they predict, for all forms of a batch."""

    def __init__(self) -> None:
        self.models = ResponseModels()
        self.squares: Tensor | None = None  # unexplained share of rewards' changes, and one; sums over checks that fade
        self.reported = False
        self.said = set[str]()  # lines of the log that all forms have in common

    def state(self) -> dict[str, Tensor]:
        """Return tensors for a checkpoint."""
        return self.models.state() | ({} if self.squares is None else {"control.squares": self.squares.clone()})

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore a :meth:`state`."""
        models = dict(tensors)
        squares = models.pop("control.squares", None)
        # versions whose checks counted by their size left sums that would outweigh many later checks
        self.squares = None if squares is None else squares * (1 / (1 - MEMORY) / squares[1]).clamp(max=1.0)
        self.models.restore(models)


class ControlVariates:
    """Predictions that learn in the run. ``correction`` by fitnesses: always | auto, until they suffice | never.

    ``fitted``: members that models were fitted to in a generation whose predictions sufficed, else None.
    """

    def __init__(self, passes: Passes, addresses: Addresses, correction: str, learnt: Learnt) -> None:
        self._passes, self._addresses, self._correction, self._learnt = passes, addresses, correction, learnt
        rows = addresses.sides * addresses.examples  # examples in the passes of a draw
        most = pass_rows(max(1, addresses.widths[-1]), passes.settings.device, MEASURED * rows)
        self._side_by_side = max(1, most // addresses.examples)  # passes that measure a derivative
        # the variance of a correction is numbers / rewards times what predictions leave unexplained, the most that it can remove
        numbers = max(sum(addresses.widths[layer] for layer in addresses.layers_in(group)) for group in range(addresses.groups))
        # where examples mix, all their rewards count for each: they tell no more than those of one
        rewards = addresses.each if passes.plan.mixed else addresses.rewards
        noisier = numbers / addresses.each > addresses.draws * addresses.sides * rewards
        self._tolerated = HALF if noisier else UNEXPLAINED
        self._said = False
        self._early, self._ran = 0, 1  # fits before a generation's predictions; passes until then
        self.fitted: int | None = None

    def predict(self, clean: CleanPass, sigma: float) -> None:
        """Set what is predicted of the layers of a clean pass."""
        record = clean.record
        # a step function responds to no change smaller than the noise
        last = self._measured_derivative(clean, max(STEP, sigma)) if record.scores is None else None
        self._learnt.models.attach(record.nodes, self._passes.settings.device)
        # a fit comes first, so that predictions are those of this generation's parameters
        clean.smooth = record.smooth and last is None
        self._early, observed = int(clean.smooth and self._learnt.squares is not None), list[ObservedChanges]()
        if self._early:
            observed = self._observe(clean, self._addresses.draws, False)
            self._learn(clean, observed, self._addresses.draws)
        self._ran = 1 + len(observed)
        joint = self._is_joint(clean) and self._is_checked(clean) and self._begins_with_check(clean)
        clean.predictor = RewardPredictor(record, clean.layers, last, joint)
        if not self._said:
            self._said = True
            log.info("scoring: control variates on %d of %d layers", clean.predictor.count, len(clean.layers))
            if self._correction == "never" and clean.predictor.missed:
                names = ", ".join(place.name for layer in clean.predictor.missed for place in layer.places)
                reason = "predictions do not reach these parameters, which stay as they are"
                self._passes.settings.warn(f"sampler.correction=never: {reason}: {names}")
            if not record.smooth and self._correction == "auto":
                log.info("scoring: each generation is corrected, as the network has steps; sampler.correction=never does without")
        clean.smooth = record.smooth and last is None and not clean.predictor.missed

    def fit(self, clean: CleanPass) -> bool:
        """Fit the response models, unless predictions suffice and are not measured; return whether predictions are used alone.

        The draws of these fits are never used for a fitness, so that a correction stays unbiased.
        """
        learnt = self._learnt
        if not self._is_checked(clean):
            self.fitted = self._ran * self._addresses.rewards
            return True
        new, first = learnt.squares is None, self._addresses.draws + self._early
        sufficed = new or self._explains(self._tolerated)
        # whether the generation's last measurement was within rounding, and its mirrored passes
        self._quiet, self._mirrored = False, 0
        most = FIRST_FITS if new else FITS
        observed, fits = self._observe(clean, first, self._begins_with_check(clean)), 1
        passes = self._ran + len(observed)
        for draw in range(first + 1, first + 1 + most):
            # nothing is measured here, or no more is needed. Models without a fit may explain enough by the last layer alone
            if learnt.squares is None or (self._suffices and not (new and fits == 1)):
                break
            self._learn(clean, observed, draw - 1)
            checked = not self._passes.plan.mixed or fits % COUPLED == 0 or fits == most
            if checked:
                self._renew(clean, self._is_joint(clean))
            observed, fits = self._observe(clean, draw, checked), fits + 1
            passes += len(observed)
        renewed = bool(self._early) and fits == 1
        if not renewed:
            self._learn(clean, observed, first + fits - 1)
        trusted = self._explains(self._tolerated)
        # A correction by changes within rounding would be noise. One that is noisier than what it removes waits for a second
        # generation of failed checks: at some weights rewards have no slope at any size of noise, and Adam remembers it for long
        waits = self._quiet or (sufficed and learnt.squares is not None and self._tolerated == HALF)
        alone = trusted or self._correction == "never" or (self._correction == "auto" and waits)
        self.fitted = (passes + self._mirrored) * self._addresses.rewards if alone else None
        if alone and clean.smooth and not renewed:
            self._renew(clean, False)
        if trusted and not learnt.reported:
            learnt.reported = True
            log.info("scoring: from generation %d on predictions are used alone where they explain %g %% of fitnesses",
                     clean.generation, 100 * (1 - self._tolerated))  # fmt: skip
        return alone

    def _renew(self, clean: CleanPass, joint: bool) -> None:
        """Set what is predicted by the models as they are now."""
        clean.forget()
        clean.predictor = RewardPredictor(clean.record, clean.layers, None, joint)

    def _learn(self, clean: CleanPass, observed: list[ObservedChanges], draw: int) -> None:
        """Fit the models to what was ``observed`` in passes of a ``draw``, and to calls' responses to unit inputs."""
        self._learnt.models.learn(clean.record.nodes, observed, clean.generation + draw, self._passes.threads)

    def expected(self, clean: CleanPass, deltas: dict[int, Tensor]) -> Tensor:
        """Return the changes (R, B, T) of rewards that are predicted for ``deltas`` (R, ..)."""
        count = len(next(iter(deltas.values())))
        expected = torch.zeros((count, *clean.scores.shape[:2]), dtype=torch.float64, device=clean.scores.device)
        if self._is_joint(clean):
            assert clean.predictor is not None
            for row, part in enumerate(expected):
                part += clean.predictor.predict({number: delta[row] for number, delta in deltas.items()}).view(part.shape)
            return expected
        for number, delta in deltas.items():
            expected = expected + clean.layers[number].predicted_change(delta)
        return expected

    @property
    def _suffices(self) -> bool:
        """Return whether predictions explain so much that they need not learn in every generation."""
        return self._explains(UNEXPLAINED)

    def _explains(self, unexplained_share: float) -> bool:
        """Return whether predictions leave at most a share of the squares unexplained; never where each is corrected."""
        if self._correction == "always" or self._learnt.squares is None:
            return False
        unexplained, total = self._learnt.squares.tolist()
        return total > 0 and unexplained <= unexplained_share * total

    def _is_joint(self, clean: CleanPass) -> bool:
        """Return whether noise on one reward's outputs changes other rewards: then each is predicted from all noise."""
        return self._addresses.each > 1 or self._passes.plan.mixed

    def _is_checked(self, clean: CleanPass) -> bool:
        """Return whether a generation measures what predictions explain: always until they suffice, then more and more rarely.

        Models that learn from passes are checked as often at any time. Those that are read off cannot drift.
        """
        rarely = CHECK_EVERY if any(node.position is not None for node in clean.record.nodes) else RARELY
        # an eighth to a sixteenth of the generations so far
        every = min(rarely, max(CHECK_EVERY, 1 << max(0, clean.generation.bit_length() - 4)))
        return not self._suffices or clean.generation % every == 0

    def _begins_with_check(self, clean: CleanPass) -> bool:
        """Return whether a check comes before the fits, and not only after them where rewards are coupled."""
        return not self._passes.plan.mixed or self._learnt.squares is None or self._suffices

    def _observe(self, clean: CleanPass, draw: int, checked: bool) -> list[ObservedChanges]:
        """Run passes with a draw's noise in all layers, on every rank; none where nothing is learnt or measured.

        ``checked``: measure what predictions explain of a smooth one, if the generation does at all.
        """
        measured = checked and clean.smooth and self._correction != "always" and self._is_checked(clean)
        if not measured and not any(node.position is not None for node in clean.record.nodes):
            return []
        deltas, least = {}, 0.0
        for number, layer in enumerate(clean.layers):
            noise = self._addresses.numbers(clean.generation, number, draw, draw + 1)
            precision = torch.finfo(layer.outputs.dtype).eps
            size = max(SMALL, math.sqrt(precision))
            least = max(least, DIGITS * precision / size)
            deltas[number] = layer.delta(noise, size if clean.smooth else layer.sigma)[0]
        sides = (1,) if clean.smooth else (1, -1)[: self._addresses.sides]
        results: dict[int, tuple[Tensor, ObservedChanges]] = {}

        def run(side: int) -> None:
            signed = deltas if side > 0 else {number: -delta for number, delta in deltas.items()}
            results[side] = self._passes.observe(clean, signed)

        self._passes.threads.passes(run, sides)
        if measured:
            change, expected = results[1][0], self.expected(clean, {number: delta[None] for number, delta in deltas.items()})[0]
            unexplained, total = _squares(change, expected).tolist()
            share = 1.0  # the measured change's noise, as a part of the usual one
            if unexplained > UNEXPLAINED * total > 0:
                # predictions are slopes: curvature, most of a change near a minimum and in a deep network, cancels in mirrored
                # noise and shrinks with it, down to what rounding allows
                share = min(1.0, max(least, BEYOND * self._rounding / math.sqrt(total / change.numel())))
                pair = [self._passes.observe(clean, {number: side * share * delta for number, delta in deltas.items()})[0]
                        for side in (1, -1)]  # fmt: skip
                self._mirrored += 2
                change = (pair[0] - pair[1]) / (2 * share)
            self._measure(change, expected, share, max(layer.sigma for layer in clean.layers) / size)
        return [results[side][1] for side in sides]

    @property
    def _rounding(self) -> float:
        """Least change of a reward that a measurement uses."""
        return ROUNDING * torch.finfo(self._passes.settings.precision).eps

    def _measure(self, change: Tensor, expected: Tensor, share: float, larger: float) -> None:
        """Add rewards' ``change`` (B, T) and the ``expected`` one to the squares, unless the change is within rounding.

        ``share``: that of the noise which was measured and scaled up. ``larger``: noise of corrections over that of the change;
        what it changes may be beyond rounding, or any step.
        """
        parts = _squares(change, expected)
        least = change.numel() * (self._rounding / share) ** 2
        self._quiet = bool(parts[1] > 0 and parts[1] * max(1.0, larger) ** 2 < least)
        if parts[1] >= least:
            # each check counts alike: one of saturated rewards must not outweigh all later ones
            parts = (parts / parts[1]).clamp(max=1.0)
            squares = self._learnt.squares
            self._learnt.squares = parts if squares is None else squares * MEMORY + parts

    def _measured_derivative(self, clean: CleanPass, size: float) -> Tensor:
        """Measure the derivatives (B T, n) of rewards by the last layer's outputs, by a pass for each output of a reward."""
        number, examples, device = len(clean.layers) - 1, self._addresses.examples, self._passes.settings.device
        layer = clean.layers[number]
        outputs, step = layer.outputs_a_reward, size * layer.scale
        assert outputs is not None
        parts: dict[int, Tensor] = {}

        def run(low: int) -> None:
            single = torch.eye(outputs, device=device, dtype=torch.float32)[low : low + self._side_by_side]
            noise = single[:, None, None].expand(-1, examples, layer.rewards, -1).reshape(len(single), examples, -1)
            delta = layer.axes.from_rows(noise * step, layer.outputs).to(layer.outputs.dtype)
            gains = self._passes.gains(clean, {number: delta})[..., 0]
            parts[low] = gains.movedim(0, -1) / step

        self._passes.threads.passes(run, range(0, outputs, self._side_by_side))
        return torch.cat([parts[low] for low in sorted(parts)], -1).flatten(0, 1)


def _squares(change: Tensor, expected: Tensor) -> Tensor:
    """Return the sums of squares (2,), on the CPU, of what is not ``expected`` of rewards' ``change``, and of all of it."""
    return torch.stack([(change - expected).square().sum(), change.square().sum()]).cpu()
