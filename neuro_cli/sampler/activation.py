"""Noise on activations: another one for every example and draw, in the forward pass of the centre's own network.

A layer ``y = W x`` gets ``y + s e`` with e ~ N(0, I). The fitness r of an example then estimates its derivative by y,
``E[r e] / s``, and the layer's weights learn from ``sum_b g_b x_b^T`` (Fiete, Seung, "Gradient learning in spiking neural
networks by dynamic perturbation of conductances", PRL 97, 2006; Ren, Kornblith, Liao, Hinton, "Scaling forward gradient with
local losses", ICLR 2023). Where a layer has fewer weights than outputs, an example has noise of the weights instead.

Every number has an address: the seed, the generation, the layer (as direction) and, as column, draw, example and output.

Legend: B examples, T rewards of an example (1, or one a token), K draws, G groups of layers that are perturbed in one pass,
R = B T, n numbers of noise of an example in a layer, M columns. Direction (k G + g) R + r is draw k of group g for reward r.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.checks import integer, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout, Place
from neuro_cli.core.noise import ACTIVATION_STREAM, Noise
from neuro_cli.sampler.base import BaseSampler

SPACES, SCALES, SCHEDULES = ("auto", "outputs", "weights"), ("relative", "absolute"), ("one", "all")
WIRES = ("float32", "int8")
CREDITS = ("own", "following", "all")
CORRECTIONS = ("auto", "always")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Form:
    """Sizes of what is perturbed in a generation: ``examples`` B, ``rewards`` T of each, ``widths`` n of every layer's noise."""

    examples: int
    rewards: int
    widths: tuple[int, ...]


class PerturbedLayer(Protocol):
    """A layer in the clean pass of a generation."""

    places: tuple[Place, ...]
    scale: float  # of its noise, in units of sigma

    def gathered(self, noise: Tensor, weights: Tensor) -> Tensor:
        """Sum over the examples or of each: what one draw's ``noise`` (B, n) with ``weights`` (B, T) adds to the estimate."""

    def gradients(self, total: Tensor | None, unit: float) -> Sequence[Tensor | None]:
        """Estimate of the parameters at :attr:`places` by the sum ``total`` over :meth:`gathered` of all draws, None for no draw.

        With the control variate, of ``unit`` times sigma; None for a parameter without an estimate.
        """


class CleanPasses(Protocol):
    """Whoever holds the clean pass of a generation."""

    def layers_of(self, generation: int) -> Sequence[PerturbedLayer]:
        """The layers, with the inputs that they had."""


class Activation(BaseSampler):
    """Noise of an example on the outputs of layers, in ``draws`` K >= 1 forward passes per example and group of layers.

    ``space`` of a layer's noise: outputs | weights | auto, the one with fewer numbers. ``scale`` of it, times ``algo.sigma``:
    relative to the root mean square of the layer's outputs, or absolute. ``schedule``: one layer in a pass, or all together.
    ``antithetic``: draws in mirrored pairs, of 2 passes; else each is compared with the clean pass. ``wire``: float32 | int8,
    of the fitnesses of ranks. ``control_variates``: fitnesses count by their difference to predictions that learn in the run;
    auto: where algorithm and network allow it. ``correction`` of predictions by fitnesses: always | auto, until they explain
    90 % of what noise does, and stand alone. ``credit`` of a token's noise, where each has a reward: its own | those of the
    following tokens too | all of the example. Raises ConfigError.
    """

    perturbs = "activations"

    def __init__(
        self,
        draws: int = 4,
        space: str = "auto",
        scale: str = "relative",
        schedule: str = "one",
        antithetic: bool = True,
        wire: str = "float32",
        control_variates: bool | str = "auto",
        credit: str = "own",
        correction: str = "auto",
    ) -> None:
        super().__init__(antithetic)
        self.draws = integer("sampler.draws", draws, 1)
        self.space = one_of("sampler.space", space, SPACES)
        self.scale = one_of("sampler.scale", scale, SCALES)
        self.schedule = one_of("sampler.schedule", schedule, SCHEDULES)
        self.wire = one_of("sampler.wire", wire, WIRES)
        self._asked = None if control_variates == "auto" else _control_variates(control_variates)
        self._said: str | None = None
        self.uncontrolled: str | None = None  # reason why the network has no control variates
        self.credit = one_of("sampler.credit", credit, CREDITS)
        self.correction = one_of("sampler.correction", correction, CORRECTIONS)

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        """Take the noise of the run; the population follows from the network, see :meth:`attend`."""
        self.noise, self.population, self.layout = noise, population, layout

    def check(self, population: int) -> None:
        """Any ``population`` is right: it is not used."""

    def choose_control_variates(self, reason: str | None) -> None:
        reason = reason or self.uncontrolled
        if self._asked and reason is not None:
            raise ConfigError("sampler.control_variates", True, reason)
        self.control_variates = reason is None if self._asked is None else self._asked
        if self._asked is None and reason not in (None, self._said):
            self._said = reason
            log.info("sampler.control_variates=auto: none, %s", reason)

    def attend(self, form: Form, holder: CleanPasses) -> None:
        """Take the form of a generation. Raises ConfigError where it has more members than addresses."""
        self.form, self._holder = form, holder
        self.groups = 1 if self.schedule == "all" else len(form.widths)
        self.rewards = form.examples * form.rewards
        self.population = self.draws * self.groups * self.rewards * self.passes
        if self.population >= 2**32:
            raise ConfigError("sampler.draws", self.draws, f"{self.population} forward passes of an example are too many")

    @property
    def passes(self) -> int:
        """Forward passes of a draw: 2 in mirrored pairs."""
        return 2 if self.antithetic else 1

    def group_of(self, members: np.ndarray) -> np.ndarray:
        """Group of layers that is perturbed in the pass of each of ``members``."""
        group: np.ndarray = members // (self.passes * self.rewards) % self.groups
        return group

    def layers_in(self, group: int) -> Sequence[int]:
        """Numbers of the layers that are perturbed in the passes of a group."""
        return range(len(self.form.widths)) if self.schedule == "all" else (group,)

    def numbers(self, generation: int, layer: int, first: int, last: int) -> Tensor:
        """Noise (last - first, B, n) float32 of a layer in draws [first, last)."""
        examples, width = self.form.examples, self.form.widths[layer]
        each = examples * width
        drawn = self.noise.draw(generation, [layer], first * each, last * each, ACTIVATION_STREAM)
        return drawn.view(last - first, examples, width)

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        """Estimates from weights of directions: the noise of a layer counts in units of its scale, as that of parameters does.

        A direction perturbs one group of G, so all count G times: the mean over directions is then that of a whole network.
        """
        assert set(moments) == {1}  # algorithms that need squares are refused
        layers = self._holder.layers_of(generation)
        device = self.noise.device
        whole = np.zeros((len(weights), self.draws * self.groups * self.rewards))
        whole[:, directions.start : directions.stop] = weights * self.groups
        shape = (len(weights), self.draws, self.groups, self.form.examples, self.form.rewards)
        shared = torch.from_numpy(whole.astype(np.float32)).view(shape).to(device)
        if self.credit == "all":
            shared = shared.sum(-1, keepdim=True).expand(shape)
        elif self.credit == "following":
            shared = shared.flip(-1).cumsum(-1).flip(-1)
        wanted = [layer for layer in range(len(layers)) if _meets(layers[layer], start, stop)]
        made: dict[int, list[Sequence[Tensor | None]]] = {}
        # a fitness of one prediction e counts this often in a sum over draws, groups and sides
        unit = (self.unit or 0.0) * self.draws * self.groups * self.passes

        def run(layer: int) -> None:
            totals = self._layer_sums(layers[layer], layer, shared[:, :, layer % self.groups], generation)
            rows: Sequence[Tensor | None] = totals or [None] * len(weights)  # none where all fitnesses are equal
            made[layer] = [layers[layer].gradients(total, unit) for total in rows]

        self.noise.threads.map(run, wanted)
        columns = torch.zeros(len(weights), self.layout.size, device=device, dtype=torch.float32)
        for layer in wanted:  # in their order: a weight may be that of several
            for row, parts in zip(columns, made[layer], strict=True):
                for place, part in zip(layers[layer].places, parts, strict=True):
                    if part is not None:
                        place.view(row).add_(part)
        return columns[:, start:stop]

    def _layer_sums(self, layer: PerturbedLayer, number: int, weights: Tensor, generation: int) -> list[Tensor]:
        """For each row of ``weights`` (rows, K, B, T) the sum over draws, in their order."""
        totals: list[Tensor] = []
        used = weights.flatten(2).any(2).any(0).tolist()
        for draw in range(self.draws):
            if not used[draw]:  # another rank's
                continue
            noise = self.numbers(generation, number, draw, draw + 1)[0]
            parts = [layer.gathered(noise, row[draw] / layer.scale) for row in weights]
            totals = [total.add_(part) for total, part in zip(totals, parts, strict=True)] if totals else parts
        return totals


def _control_variates(value: bool | str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError("sampler.control_variates", value, "must be auto, true or false")
    return value


def _meets(layer: PerturbedLayer, start: int, stop: int) -> bool:
    """Tell whether a layer has parameters in columns [start, stop)."""
    return any(place.start < stop and start < place.stop for place in layer.places)
