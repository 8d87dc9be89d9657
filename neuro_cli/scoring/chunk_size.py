"""Number of members that share a forward pass, perhaps one alone: functions of model and settings, never of ranks or clocks."""

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from neuro_cli.core.kernels.compiled import tile_kernels
from neuro_cli.core.machine.mkl import lacks_wide_kernels
from neuro_cli.scoring.base import ScoringSettings

# values of the largest activation of a chunk: what a CPU's caches take without loss, and what keeps a GPU busy
ACTIVATION = {"cpu": 2**22, "cuda": 2**28}
ROWS = {"cpu": (32, 4096), "cuda": (256, 2**17)}  # least and most rows of a chunk of members
# the same of passes with noise on activations, which make their noise while an activation is near
NEAR = {"cpu": 2**21, "cuda": 2**28}
PASSES = {"cpu": (32, 512), "cuda": (256, 2**17)}
CHUNKS = {"cpu": 2, "cuda": 1}  # least number, so that two threads can share the work
NOISE = {"cpu": 2**22, "cuda": 2**30}  # values of noise that a sampler without reuse may hold for a chunk


def pass_rows(largest: int, device: torch.device, total: int) -> int:
    """Return :func:`chunk_rows` for passes with noise on activations; a rank has any number of them."""
    low, high = PASSES[device.type]
    return max(low, min(NEAR[device.type] // largest, high, -(-total // CHUNKS[device.type])))


def chunk_rows(largest: int, device: torch.device, total: int) -> int:
    """Return the number of rows of a chunk, of ``total`` rows; ``largest``: values of a row in the module's largest activation.

    At least CHUNKS of them where the rows suffice, and a multiple of that, of one length: no thread waits for another one's.
    """
    (low, high), some = ROWS[device.type], CHUNKS[device.type]
    count = -(-total // max(low, min(ACTIVATION[device.type] // largest, high)))
    return max(low, -(-total // (-(-count // some) * some)))


# A chunk with dense noise on a CPU may always have SOME members, and twice as many if they have NUMBERS in all. It may have an
# eighth of the population, up to MOST directions or NUMBERS. Ranks compute complete chunks, so larger ones cost a rank with few
# members the noise of others; in smaller ones Python takes most of the time.
SOME, MOST, NUMBERS = 256, 256, 2**20


def shared_directions(directions: int, size: int, sides: int) -> int:
    """Return the most directions of ``size`` numbers in a chunk with dense noise on a CPU, of ``directions`` in a generation."""
    few = NUMBERS // size
    return max(SOME // sides, min(2 * SOME // sides, few), min(max(MOST, few), directions // 8))


def dense_directions(size: int, device: torch.device) -> int:
    """Return the number of directions of ``size`` numbers each that a chunk may hold."""
    return max(1, NOISE[device.type] // size)


# products of a member (number times weight) up to which a pass of its own costs more, by Python's calls, than a shared one. Noise
# doubles the products of convolutions, so theirs are fewer; linear layers multiply by each member's weights
SMALL, CONVOLVED = 2**23, 2**22
# products of a member with reused noise, and for each of its weights, beyond which single members are faster than the mapped pass
MANY, PER_WEIGHT = 2**24, 128


# the most where tiles serve linear layers, which take 0.55 to 0.9 of the time of MKL's kernels for AMD: measured up to here. Its
# kernels for AVX-512 are faster from 2**26 on: on a Xeon a transformer of 2**27.6 took 1.9 times as long with tiles, one of
# 2**24.6 0.77 times. Beyond SMALL a chunk has so many that Python's calls are a small part, no more: ranks compute complete ones
TILED, SOME_PRODUCTS = 2**30 if lacks_wide_kernels() else 2**26, 2**29
# weights of such a member: 2**24 took 1.7 times the memory of single members and as long, twice as many 3 times and longer, and a
# trial of 5e7 a minute
TILED_WEIGHTS = 3 * 2**22


def most_products(settings: ScoringSettings, convolved: bool = False, mapped: bool = False) -> int:
    """Return the most products that a member may have, examples included, to share passes by dense noise on a CPU.

    ``convolved``: a trial has met convolutions; ``mapped``: it chose the mapped pass.
    """
    kinds = {type(part) for part in settings.module.modules()}
    if any(issubclass(kind, _ConvNd) for kind in kinds):
        return min(SMALL, CONVOLVED)
    tiled = not convolved and settings.precision == torch.float32 and settings.layout.size < TILED_WEIGHTS
    tiled = tiled and not any(_repeats_weights(part, mapped) for part in settings.module.modules())
    return TILED if tiled and settings.sampler.compiled and tile_kernels.FASTER else SMALL


def _repeats_weights(part: nn.Module, mapped: bool) -> bool:
    """Return whether each step of a recurrent layer computes its members' weights again, without the loop over all steps."""
    return isinstance(part, nn.RNNCellBase) or (isinstance(part, nn.RNNBase) and (mapped or part.proj_size > 0))


def product_directions(products: int, sides: int) -> int:
    """Return the most directions of a chunk with dense noise on a CPU, whose members have so many ``products`` each."""
    return max(1, SOME_PRODUCTS // (products * sides)) if products > SMALL else NUMBERS


def may_share_passes(settings: ScoringSettings) -> bool:
    """Return whether one pass of many members may be faster than one of each; a trial then counts the products."""
    if settings.device.type != "cpu" or settings.few_examples:
        return True
    # nearly every weight meets every example at least once
    return settings.precision == torch.float32 and settings.layout.size * settings.examples <= most_products(settings)


def is_slower(settings: ScoringSettings, products: int, mapped: bool, convolved: bool) -> bool:
    """Estimate if single members are faster, with so many products of a number and a weight a row.

    ``mapped``: by that pass; ``convolved``: some in convolutions.

    Noise doubles the products; drawing a member's weights costs as much as some products with each. Measured on a CPU with
    reused noise: a transformer of 1.8 million weights and 50 words takes 0.86 of the time of single members on 2 examples each
    and 1.36 on 4, a GRU of 160,000 weights and 28 steps 0.97 on 4 and 1.45 on 8; small networks gain on 8, as calls cost more
    than products there.
    """
    mine = products * settings.examples
    if settings.device.type != "cpu":
        return False
    if not settings.few_examples:
        tiled = mine >= 2 * tile_kernels.ROWS * settings.layout.size  # rows of a weight; with 12 a tile computes four again
        return mine > (most_products(settings, convolved, mapped) if tiled or mine <= SMALL else SMALL)
    return mapped and mine > MANY and mine > PER_WEIGHT * settings.layout.size
