"""Test for examples that mix: noise on one's activations changes another's reward, through batch norm or sums over a batch.

If they do, an example's own reward misses a part of its noise's effect, so its noise counts with the rewards of the complete
batch.
"""

import itertools
import math

import torch
from torch import Tensor

from neuro_cli.activation_noise.noise.layer_noise import NoisyLayer
from neuro_cli.activation_noise.noise.noisy_pass import noisy_scores
from neuro_cli.activation_noise.recording.clean_pass import PassRecord
from neuro_cli.activation_noise.recording.module_pass import ModulePass
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.tolerance import SCALE

SCALES = (SCALE, SCALE / 10, SCALE / 100)  # sizes of a trial's noise: the next one where a pass refuses it
QUIET = 1e-3  # largest change of a reward, relative to those of examples with noise, that counts as rounding


def noisy_centre(centre: Tensor) -> Tensor:
    """Return ``centre`` (M,) with noise on it, so that weights which are zero hide nothing."""
    noise = torch.randn(centre.shape, generator=torch.Generator().manual_seed(1))
    return centre + SCALE * noise.to(centre)


def examples_mix(record: PassRecord, layers: list[NoisyLayer], source: ModulePass, way: tuple[bool, bool, bool]) -> bool:
    """Return whether noise in all layers on some examples changes the rewards of others.

    ``way``: how :func:`noisy_scores` runs the passes of a ``record`` of ``source``.
    """
    for size in SCALES:
        try:
            return _examples_mix(record, layers, source, way, size)
        except (Unsupported, ValueError):  # a module or a loss may refuse what the noise makes of its numbers
            if size == SCALES[-1]:
                raise
    raise AssertionError


def _examples_mix(
    record: PassRecord, layers: list[NoisyLayer], source: ModulePass, way: tuple[bool, bool, bool], size: float
) -> bool:
    def delta(number: int, layer: NoisyLayer, noisy: Tensor) -> Tensor:
        drawn = torch.randn(1, layer.examples, layer.width, generator=torch.Generator().manual_seed(number))
        return layer.delta((drawn * noisy[:, None]).to(layer.outputs), size)

    def rewards(noisy: Tensor) -> Tensor:
        """Return the rewards (B, ..) of a pass with noise on the examples for which ``noisy`` (B,) is one."""
        deltas = {number: delta(number, layer, noisy) for number, layer in enumerate(layers)}
        return noisy_scores(record, deltas, source, *way)[0, ..., 0]

    codes = _codes(layers[0].examples)
    clean = rewards(torch.zeros(len(codes)))  # a pass of the same kind, whose rows have the same rounding
    for noisy in codes.T:
        change = (rewards(noisy) - clean).nan_to_num()
        least = float(change[noisy].square().mean().sqrt())
        if float(change[~noisy].abs().max()) > QUIET * least:
            return True
    return False


def _codes(examples: int) -> Tensor:
    """Return in which of n passes each example has noise, (B, n) bool: in half of them, and no two in the same ones.

    So each has noise in a pass in which any other one has none, with the fewest passes (Sperner).
    """
    passes = next(n for n in itertools.count(2) if math.comb(n, n // 2) >= examples)
    codes = torch.zeros(examples, passes, dtype=torch.bool)
    for example, chosen in zip(range(examples), itertools.combinations(range(passes), passes // 2), strict=False):
        codes[example, list(chosen)] = True
    return codes
