"""Linear layers in integers: int8 inputs and weights, int32 sums, and a shift back to int8.

Integers stand for multiples of a power of two. Only the conversion to int8 rounds, by the same rule on every processor, so
outputs have the same bits in whatever order the products are added. Evolution moves float32 parameters, which each forward
pass rounds to int8. Rounding has no slope, so there is no gradient.
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
from neuro_cli.core.machine.processor import supported
from neuro_cli.model.shapes import checked_pool, checked_shape, checked_widths, square_sums

LARGEST = 127  # largest size of a weight and of an activation in int8
VALUE_BITS = 5  # inputs and activations are multiples of 2**-5, from -3.97 to 3.97
DEVIATION = 8  # most deviation of initial weights, in units of int8: they grow in training, and are cut off at 127
EXACT = 2**24  # float32 has every whole number up to here
MOST_INPUTS = EXACT // (LARGEST + 1) ** 2  # a layer's sums stay exact in float32


class Int8Linear(nn.Linear):
    """Inputs (B, inputs) to sums (B, outputs), multiples of 2**-``sum_bits``, both stored as whole numbers in a floating type.

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

    ``hidden``: widths of the hidden layers; ``pool``: side of the squares of pixels whose means are the inputs.
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
        pixels = images.to(torch.promote_types(images.dtype, torch.float32))  # bfloat16 has too few bits for them
        x = pooled(nearest(pixels, VALUE_BITS), self.pool).flatten(1)
        for layer in self.layers[:-1]:
            assert isinstance(layer, Int8Linear)
            # rescales multiples of 2**-sum_bits to multiples of 2**-VALUE_BITS
            x = shifted(layer(x), layer.weight_bits).clamp(0, LARGEST)
        last = self.layers[-1]
        assert isinstance(last, Int8Linear)
        logits: Tensor = last(x) * 2**-last.sum_bits
        return logits


def nearest(x: Tensor, bits: int) -> Tensor:
    """Round to multiples of 2**-bits, a half to the even one, given as whole numbers within int8's range."""
    return (x * 2**bits).round().clamp(-LARGEST, LARGEST)


def shifted(x: Tensor, bits: int) -> Tensor:
    """Divide int8 products ``x`` by 2**bits and round, a half upwards."""
    return (x * 2**-bits + 0.5).floor()


def pooled(x: Tensor, side: int) -> Tensor:
    """Average each square of pixels, rounded, a half upwards: (B, C, H, W) to (B, C, H / side, W / side), whole numbers."""
    if side == 1:
        return x
    count = side * side
    return ((square_sums(x, side) + count // 2) / count).floor()


def integer_product(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply ``x`` (B, n) by ``weight`` (m, n), whole numbers within int8's range, n <= MOST_INPUTS: (B, m), exact.

    Uses the processor's int8 products with int32 sums if it has them, else products in the type of ``x``. There every partial
    sum is a whole number that float32 has, so nothing is rounded in any order of addition.
    """
    if not has_int8_products() or _is_watched(x, weight) or x.device.type != "cpu":
        return F.linear(x, weight)
    sums = torch._int_mm(x.to(torch.int8), weight.to(torch.int8).t()).to(x.dtype)
    return sums + 0 * (x.sum(1, keepdim=True) + weight.sum(1))  # int8 has no NaN, so a network that diverged would look fine


def _is_watched(x: Tensor, weight: Tensor) -> bool:
    """Return whether a scorer with hooks on torch's functions, a vmap or autograd follows the product."""
    if torch._C._len_torch_function_stack():
        return True
    mapped = _functorch.is_batchedtensor(x) or _functorch.is_batchedtensor(weight)
    return mapped or x.requires_grad or weight.requires_grad


@cache
def has_int8_products() -> bool:
    """Return whether this processor has int8 products (VNNI) for the network, and oneDNN makes exact ones.

    Without them torch multiplies in a slow plain loop. With ONEDNN_MAX_CPU_ISA below VNNI the sums of two products are cut off
    at 16 bits.
    """
    if not supported("vnni"):
        return False
    largest = torch.full((32, 32), LARGEST, dtype=torch.int8)
    return bool((torch._int_mm(largest, largest) == 32 * LARGEST**2).all())
