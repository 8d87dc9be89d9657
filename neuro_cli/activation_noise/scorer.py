"""Scores members by noise on activations: one clean pass over all examples of a generation, then passes with noise.

Every rank runs the clean pass, since it needs the inputs of layers; ranks divide the passes with noise. Draws are computed in
blocks that do not depend on the ranks, since matrix products of other sizes may round otherwise.

Legend: B examples, T rewards of an example, K draws, G groups of layers, R = B T, S sides, C score columns, M columns.
"""

import logging
import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.activation_noise.control_variates import STEP, ControlVariates, Learnt
from neuro_cli.activation_noise.noise.addresses import Addresses
from neuro_cli.activation_noise.noise.layer_noise import NoisyLayer
from neuro_cli.activation_noise.passes import CleanPass, Passes
from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import ConfigError
from neuro_cli.scoring.base import PassSettings, Scorer
from neuro_cli.scoring.chunk_size import pass_rows
from neuro_cli.scoring.passes.member_dimension import unfused

log = logging.getLogger(__name__)


class ActivationScorer(Scorer):
    """Scores are differences to the clean pass, (n, C) for one reward of an example each.

    ``controlled``: with control variates.
    """

    examples = 1
    own_examples = True
    controlled = False

    def __init__(
        self, settings: PassSettings, centre: Tensor, passes: Passes, addresses: Addresses, correction: str, learnt: Learnt
    ) -> None:
        """``correction``: that of :class:`ControlVariates`."""
        super().__init__(settings)
        self._addresses, self._passes, plan = addresses, passes, passes.plan
        self._learnt, self._control = learnt, ControlVariates(self._passes, addresses, correction, learnt)
        rows = addresses.sides * settings.batch_size  # examples in the passes of a draw
        most = pass_rows(plan.largest, settings.device, addresses.draws * addresses.groups * rows) // rows
        self._block = min(addresses.draws, max(1, most))  # draws side by side
        self._start = centre
        self._pass: CleanPass | None = None
        log.info(
            "scoring: noise on %d layers, %s; %d draws of %d %s; %s, %s",
            len(plan.layers), plan.spaces, addresses.draws, addresses.groups, "group" if addresses.groups == 1 else "groups",
            "each pass begins at its noisy layer" if not plan.complete else f"each pass is complete ({plan.reason})",
            f"{self._block * addresses.sides} passes side by side" if plan.mapped else "one pass after the other",
        )  # fmt: skip

    @property
    def population(self) -> int:
        return self._addresses.members

    @property
    def scored(self) -> int:
        return self.population if self._control.fitted is None else self._control.fitted

    def means(self, sums: np.ndarray) -> np.ndarray:
        return sums.astype(np.float32)

    def state(self) -> dict[str, Tensor]:
        return self._learnt.state()

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self._learnt.restore(tensors)
        self._pass = None

    def layers_of(self, generation: int) -> Sequence[NoisyLayer]:
        """Return the layers of a generation's clean pass, of the centre that was scored last or, before that, the initial one."""
        if self._pass is None or self._pass.generation != generation:
            self._clean(generation, self._start, STEP)
        assert self._pass is not None
        return self._pass.layers

    def reference(self, generation: int) -> np.ndarray:
        assert self._pass is not None
        assert self._pass.generation == generation
        means: np.ndarray = self._pass.scores.mean((0, 1)).cpu().numpy()
        return means

    @property
    def smooth(self) -> bool:
        """Return whether rewards have a slope everywhere, as far as torch shows."""
        return self._passes.plan.smooth

    def refresh(self, source: nn.Module) -> None:
        """Copy the buffers and frozen parameters of ``source``, which a script may have changed."""
        self._passes.refresh(source)

    def release(self) -> None:
        """Drop the pass of the last generation, whose outputs take as much memory as those of back-propagation."""
        if self._pass is not None:
            self._pass.record.release()
        self._pass = None

    def _clean(self, generation: int, centre: Tensor, sigma: float) -> CleanPass:
        """Run the clean pass, and drop the one before first: its graph is as large."""
        self.release()
        self._start = centre
        clean = self._passes.clean(generation, centre, self.controlled)
        if self.controlled:
            self._control.predict(clean, sigma)
        self._pass = clean
        return clean

    @unfused()
    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        assert part is None  # data_parallel is refused
        addresses = self._addresses
        with self.settings.clock.phase("forward"):
            clean = self._clean(generation, proposal.bases[0], proposal.sigma)
            for layer in clean.layers:
                layer.sigma = _sigma_of(layer, proposal)
            alone = self.controlled and self._control.fit(clean)
        out = np.zeros((len(members), clean.scores.shape[-1]))  # predictions alone: no difference to them
        if alone:
            return out
        size = addresses.sides * addresses.rewards  # members of a draw of a group

        def run(unit: tuple[int, int]) -> None:
            block, group = unit
            low, high = block * self._block, min((block + 1) * self._block, addresses.draws)
            for draw, rows in zip(range(low, high), self._scored(clean, low, high, group), strict=True):
                start = (draw * addresses.groups + group) * size
                a, b = max(start, members.start), min(start + size, members.stop)
                if a < b:
                    out[a - members.start : b - members.start] = rows[a - start : b - start]

        # blocks of draws do not depend on the rank's share; its first and last block may be incomplete
        places = range(members.start // size, (members.stop - 1) // size + 1)
        units = {(place // addresses.groups // self._block, place % addresses.groups) for place in places}
        self._passes.threads.passes(run, sorted(units))
        return out

    def _scored(self, clean: CleanPass, low: int, high: int, group: int) -> np.ndarray:
        """Return the differences (draws, R S, C) of the draws [low, high) of a group, sides of a draw side by side."""
        addresses, clock, threads = self._addresses, self.settings.clock, self._passes.threads
        start = time.perf_counter()
        deltas, plus = dict[int, Tensor](), dict[int, Tensor]()
        for number in addresses.layers_in(group):
            noise, layer = addresses.numbers(clean.generation, number, low, high), clean.layers[number]
            plus[number] = delta = layer.delta(noise, layer.sigma)
            deltas[number] = torch.stack([delta, -delta], 1).flatten(0, 1) if addresses.sides == 2 else delta
        drawn = time.perf_counter()
        gains = self._passes.gains(clean, deltas).view(high - low, addresses.sides, *clean.scores.shape)
        if self.controlled:
            expected = self._control.expected(clean, plus)
            gains[:, 0, ..., 0] -= expected
            if addresses.sides == 2:
                gains[:, 1, ..., 0] += expected
        gains = gains.flatten(2, 3).transpose(1, 2).flatten(1, 2)
        clock.add("sample", drawn - start, threads.count)
        clock.add("forward", time.perf_counter() - drawn, threads.count)
        result: np.ndarray = gains.cpu().numpy()
        return result


def _sigma_of(layer: NoisyLayer, proposal: Proposal) -> float:
    """Return the sigma of a layer's noise. Raises ConfigError where its parameters have several: the noise is one."""
    if proposal.layers is None:
        return proposal.sigma
    factors = {proposal.layers.factors[place.name]: place.name for place in layer.places}
    if len(factors) > 1:
        allowed = f"sampler=activation has one noise for {' and '.join(factors.values())}: give them one sigma"
        raise ConfigError("algo.layers", "{..}", allowed)
    return proposal.sigma * next(iter(factors))
