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
DEVIATION = 32  # of a layer's initial weights in units of int8, at most
EXACT = 1024  # products of int8 that float32 adds up without rounding: 1024 * 127**2 < 2**24
MOST_INPUTS = 2**16  # of a layer: its sums stay in int32


class Int8Linear(nn.Linear):
    """Inputs (B, inputs) int8 to sums (B, outputs) int32, multiples of 2**-``sum_bits``.

    ``weight_bits``: a weight is a multiple of 2**-weight_bits.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        deviation = math.sqrt(2 / inputs)  # He et al. 2015
        self.weight_bits = math.floor(math.log2(DEVIATION / deviation))
        self.sum_bits = self.weight_bits + VALUE_BITS
        nn.init.normal_(self.weight, std=deviation)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        weight = nearest(self.weight, self.weight_bits).to(torch.int8)
        bias = (self.bias * 2**self.sum_bits).round().clamp(-(2**30), 2**30).int()
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
            raise ConfigError("model.hidden", max(sizes[:-1]), f"a layer of integers has at most {MOST_INPUTS} inputs")
        self.layers = nn.ModuleList(Int8Linear(before, after) for before, after in pairwise(sizes))

    def forward(self, images: Tensor) -> Tensor:
        x = pooled(nearest(images, VALUE_BITS), self.pool).flatten(1).to(torch.int8)
        for layer in self.layers[:-1]:
            assert isinstance(layer, Int8Linear)
            # multiples of 2**-sum_bits become those of 2**-VALUE_BITS
            x = shifted(layer(x), layer.weight_bits).clamp(0, LARGEST).to(torch.int8)
        last = self.layers[-1]
        assert isinstance(last, Int8Linear)
        logits: Tensor = last(x).to(images.dtype) * 2**-last.sum_bits
        return logits


def nearest(x: Tensor, bits: int) -> Tensor:
    """Nearest multiples of 2**-bits, a half to the even one, as whole numbers that int8 has."""
    return (x * 2**bits).round().clamp(-LARGEST, LARGEST)


def shifted(x: Tensor, bits: int) -> Tensor:
    """``x`` over 2**bits, rounded, a half upwards: int32 to int32."""
    return x if bits == 0 else (x + 2 ** (bits - 1)) >> bits


def pooled(x: Tensor, side: int) -> Tensor:
    """Mean of each square of pixels, rounded, a half upwards: (B, C, H, W) to (B, C, H / side, W / side), whole numbers."""
    if side == 1:
        return x
    count = side * side
    return ((square_sums(x, side) + count // 2) / count).floor()


def integer_product(x: Tensor, weight: Tensor) -> Tensor:
    """``x`` (B, n) int8 times ``weight`` (m, n) int8: (B, m) int32, exact.

    By the processor's own int8 products where it has them. Else by float32, in pieces that it adds up without rounding.
    """
    mapped = _functorch.is_batchedtensor(x) or _functorch.is_batchedtensor(weight)
    if x.device.type == "cpu" and has_int8_products() and not mapped:
        return torch._int_mm(x, weight.t())
    pieces = zip(x.split(EXACT, -1), weight.split(EXACT, -1), strict=True)
    products = [F.linear(part.float(), own.float()).int() for part, own in pieces]
    return products[0] if len(products) == 1 else torch.stack(products).sum(0, dtype=torch.int32)


@cache
def has_int8_products() -> bool:
    """Whether this processor multiplies int8 by instructions of its own (VNNI): elsewhere torch does so by a plain loop."""
    supported = getattr(torch.cpu, "_is_vnni_supported", None)
    return supported is not None and bool(supported())
