"""The choice of the forward pass that answers for many members, by trying it on a few against single members.

In float64 where the module takes that: rounding alone may part two passes of float32 widely, as batch norm over two values
does, and would hide a mistake.
"""

import copy
import logging
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from neuro_cli.core.rows import MemberBatch
from neuro_cli.scoring.base import ScoringSettings
from neuro_cli.scoring.candidate import UNSUPPORTED, brief, scoring_mode
from neuro_cli.scoring.mapped import MappedForward
from neuro_cli.scoring.operators import Unsupported
from neuro_cli.scoring.perturbed import PerturbedForward

log = logging.getLogger(__name__)

SCALE = 0.1
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # of the largest output; others 0.1


@dataclass(frozen=True)
class Way:
    """A forward pass for many members. ``repeats_sides``: it is given the input of both sides, although they have the same."""

    forward: type[PerturbedForward] | type[MappedForward]
    repeats_sides: bool = False


# products of a member, and for each of its weights, beyond which single members are faster
MANY, PER_WEIGHT = 2**24, 128

# in the order of their speed
WAYS = (Way(PerturbedForward), Way(PerturbedForward, repeats_sides=True), Way(MappedForward))


class Found(NamedTuple):
    """The way that serves, values of a row in its largest activation, whether single members are expected to be faster."""

    way: Way
    largest: int
    slower: bool


def chosen_way(settings: ScoringSettings, centre: Tensor) -> Found:
    """The first way in which the module gives what single members give.

    Raises Unsupported where there is none.
    """
    try:
        trial = Trial(settings, centre, torch.float64)
    except UNSUPPORTED:  # a module that makes tensors of its own float type
        trial = Trial(settings, centre, settings.precision)
    reason = ""
    for way in WAYS:
        if way.repeats_sides and not settings.parameter_sampler.antithetic:
            continue
        try:
            forward = trial.passed(way)
            return Found(way, forward.largest, isinstance(forward, MappedForward) and is_slower(settings, forward.products))
        except (Unsupported, *UNSUPPORTED) as error:
            reason = brief(error)
            log.info("not by %s%s: %s", way.forward.__name__, " on both sides" * way.repeats_sides, reason)
    raise Unsupported(f"{type(settings.module).__name__}: {reason}")


def is_slower(settings: ScoringSettings, products: int) -> bool:
    """Estimate if single members on a CPU are faster than the mapped pass, with so many products of a number and a weight a row.

    Noise doubles the products; drawing a member's weights costs as much as some products with each. Measured: a transformer of
    1.8 million weights and 50 words takes 0.86 of the time of single members on 2 examples each and 1.36 on 4, a GRU of 160,000
    weights and 28 steps 0.97 on 4 and 1.45 on 8; small networks gain on 8, as calls cost more than products there.
    """
    mine = products * settings.examples
    return settings.device.type == "cpu" and mine > MANY and mine > PER_WEIGHT * settings.layout.size


class Trial:
    """Outputs ``wanted`` (S D e, ..) of single members of two directions on a few examples, in ``dtype``."""

    def __init__(self, settings: ScoringSettings, centre: Tensor, dtype: torch.dtype) -> None:
        sampler = settings.parameter_sampler
        self._settings, self._centre, self._dtype = settings, centre, dtype
        examples = min(settings.examples, 4)
        directions = min(2, sampler.directions, sampler.noise_period or 2)
        self._rows = MemberBatch([SCALE, -SCALE][: 1 + sampler.antithetic], directions, examples)
        self._inputs = settings.task.batch(0, 0, examples).to(dtype).inputs
        self._module = scoring_mode(copy.deepcopy(settings.module).to(dtype))
        with torch.no_grad():
            self.wanted = torch.cat([self._single(scale, d) for scale in self._rows.scales for d in range(directions)])

    def _single(self, scale: float, direction: int) -> Tensor:
        exact = torch.float64 if self._dtype == torch.float64 else torch.float32
        step = scale * self._settings.parameter_sampler.explicit(0, direction, exact)
        self._put(self._centre.to(exact) + step)
        made: Tensor = self._module(self._inputs)
        return made

    def _put(self, flat: Tensor) -> None:
        self._settings.layout.attach(self._module, flat.to(self._dtype))

    def passed(self, way: Way) -> PerturbedForward | MappedForward:
        """The forward pass after its trial. Raises Unsupported where the outputs differ, or what the module raises."""
        made = self.outputs(way)
        same_shape = isinstance(made, Tensor) and made.shape == self.wanted.shape
        error = (made - self.wanted).abs().max() if same_shape else torch.tensor(torch.inf, dtype=torch.float32)
        allowed = TOLERANCE.get(self._dtype, 0.1) * self.wanted.abs().max()
        if not error <= allowed:  # so that an error that is no number fails too
            raise Unsupported("many members in one forward pass do not give what single members give")
        return self._forward

    def outputs(self, way: Way) -> Any:
        """Outputs of the module for all members in one pass."""
        settings, rows = self._settings, self._rows
        perturbation = settings.parameter_sampler.perturbation(0, 0, rows, self._dtype)
        self._put(self._centre)
        inputs = repeated(self._inputs, rows.directions * (len(rows.scales) if way.repeats_sides else 1))
        with torch.no_grad(), way.forward(self._module, settings.layout, perturbation) as self._forward:
            return self._module(inputs)


def repeated(x: Tensor, times: int) -> Tensor:
    """``x`` (B, ..) one after the other, (times B, ..), each in its memory format."""
    return x if times == 1 else torch.cat([x] * times)
