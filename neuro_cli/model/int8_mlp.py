"""Linear layers in integers: int8 inputs and weights, int32 sums, and a shift that makes int8 of them again.

Numbers stand for multiples of a power of two, so nothing is rounded but where int8 is made, and there by the same rule on every
processor: the outputs have the same bits whatever adds the products, and in whatever order. What evolution moves are float32
numbers, rounded to int8 in each forward pass. Rounding has no slope: there is no gradient.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C import _functorch

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.model.shapes import checked_pool, checked_shape, checked_widths, square_sums

LARGEST = 127  # of weights and activations, on both sides of 0
VALUE_BITS = 5  # inputs and activations are multiples of 2**-5, from -3.97 to 3.97
DEVIATION = 8  # of a layer's initial weights in units of int8, at most: they grow, and at 127 they would stay
EXACT = 2**24  # whole numbers that float32 has too
MOST_INPUTS = EXACT // (LARGEST + 1) ** 2  # of a layer


class Int8Linear(nn.Linear):
    """Inputs (B, inputs) to sums (B, outputs), multiples of 2**-``sum_bits``; all of them whole numbers in a floating type.

    ``weight_bits``: a weight is a multiple of 2**-weight_bits.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        deviation = math.sqrt(2 / inputs)  # He et al. 2015
        self.weight_bits = math.floor(math.log2(DEVIATION / deviation))
        self.sum_bits = self.weight_bits + VALUE_BITS
        self.most_bias = EXACT - 1 - inputs * LARGEST**2
        nn.init.normal_(self.weight, std=deviation)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        weight = nearest(self.weight.to(x.dtype), self.weight_bits)
        bias = (self.bias.to(x.dtype) * 2**self.sum_bits).round().clamp(-self.most_bias, self.most_bias)
        return integer_product(x, weight) + bias


class Int8MLP(nn.Module):
    """Images (B, *input_shape) to logits (B, outputs), multiples of a power of two. ReLU between the layers.

    ``hidden``: widths of the hidden layers; ``pool``: side of the squares of pixels, the mean of which is an input.
    """

    def __init__(self, input_shape: Sequence[int], hidden: Sequence[int], pool: int = 1, outputs: int = 10) -> None:
        super().__init__()
        self.input_shape = checked_shape(input_shape)
        self.pool = checked_pool(pool, self.input_shape)
        integer("model.outputs", outputs, 1)
        channels, height, width = self.input_shape
        sizes = [channels * (height // pool) * (width // pool), *checked_widths(hidden), outputs]
        if max(sizes[:-1]) > MOST_INPUTS:
            raise ConfigError(
                "model.hidden", hidden, f"a layer of integers has at most {MOST_INPUTS} inputs, not {max(sizes[:-1])}"
            )
        self.layers = nn.ModuleList(Int8Linear(before, after) for before, after in pairwise(sizes))

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.to(torch.promote_types(images.dtype, torch.float32))  # bfloat16 lacks most of these numbers
        x = pooled(nearest(pixels, VALUE_BITS), self.pool).flatten(1)
        for layer in self.layers[:-1]:
            assert isinstance(layer, Int8Linear)
            # multiples of 2**-sum_bits become those of 2**-VALUE_BITS
            x = shifted(layer(x), layer.weight_bits).clamp(0, LARGEST)
        last = self.layers[-1]
        assert isinstance(last, Int8Linear)
        logits: Tensor = last(x) * 2**-last.sum_bits
        return logits


def nearest(x: Tensor, bits: int) -> Tensor:
    """Nearest multiples of 2**-bits, a half to the even one, as whole numbers that int8 has."""
    return (x * 2**bits).round().clamp(-LARGEST, LARGEST)


def shifted(x: Tensor, bits: int) -> Tensor:
    """``x`` over 2**bits, rounded, a half upwards."""
    return (x * 2**-bits + 0.5).floor()


def pooled(x: Tensor, side: int) -> Tensor:
    """Mean of each square of pixels, rounded, a half upwards: (B, C, H, W) to (B, C, H / side, W / side), whole numbers."""
    if side == 1:
        return x
    count = side * side
    return ((square_sums(x, side) + count // 2) / count).floor()


def integer_product(x: Tensor, weight: Tensor) -> Tensor:
    """``x`` (B, n) times ``weight`` (m, n), whole numbers that int8 has, n <= MOST_INPUTS: (B, m), exact.

    By the processor's own products of int8, summed in int32, where it has them; else by those of ``x``'s type, where every sum is
    a whole number that float32 has, so that none is rounded, in whatever order they are added.
    """
    if not has_int8_products() or _is_watched(x, weight) or x.device.type != "cpu":
        return F.linear(x, weight)
    return torch._int_mm(x.to(torch.int8), weight.to(torch.int8).t()).to(x.dtype)


def _is_watched(x: Tensor, weight: Tensor) -> bool:
    """Tell whether something else follows the product: a scorer that meets torch's functions, a map, a graph of gradients."""
    if torch._C._len_torch_function_stack():
        return True
    mapped = _functorch.is_batchedtensor(x) or _functorch.is_batchedtensor(weight)
    return mapped or x.requires_grad or weight.requires_grad


@cache
def has_int8_products() -> bool:
    """Tell whether this processor multiplies int8 by instructions of its own (VNNI): elsewhere torch does so by a plain loop."""
    supported = getattr(torch.cpu, "_is_vnni_supported", None)
    return supported is not None and bool(supported())
