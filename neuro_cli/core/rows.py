"""Row operations of samplers: a batch in which every row belongs to a direction of noise.

Rows are (S sides, D directions, e examples) in that order, S scales tell how far a side goes along its direction (the
minus half of an antithetic pair has -sigma). On a CPU, in float32 or float64 and with channels last in memory, compiled
loops do it (:mod:`neuro_cli.core.kernels.numba_rows`), on a GPU Triton kernels (:mod:`neuro_cli.core.kernels.triton_rows`);
elsewhere torch operations do.

Legend: n = S D e rows, C channels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.kernels import gpu
from neuro_cli.core.kernels.compiled import attention_kernels, row_kernels

COMPILED = (torch.float32, torch.float64)
ONCE = "_neuro_once"  # attribute of rows that repeat others: these, and the writes to both before
HEAD = 32  # most numbers of a query, and of a value, with which compiled loops are faster than torch's products
SHORT_ORDER = 14  # orders of up to 2**14 things have keys of 32 bits, at least 18 of them random


def repeated(x: Tensor, times: int) -> Tensor:
    """Return ``x`` (B, ..) one after the other, (times B, ..), each in its memory format; :func:`once` gives ``x`` back."""
    result = repeat(x, times)
    if result is not x and not (x.is_inference() or result.is_inference()):  # inference tensors do not count writes
        rows = once(x)
        setattr(result, ONCE, (rows, rows._version, result._version))
    return result


def repeat(x: Tensor, times: int) -> Tensor:
    """Return :func:`repeated` for a tensor that compiled loops write to, which nobody counts."""
    if times == 1:
        return x
    return torch.cat([x] * times) if x.dim() == 4 else x.repeat(times, *[1] * (x.dim() - 1))


def once(x: Tensor) -> Tensor:
    """Return the rows that ``x`` repeats, for which a layer is computed once; ``x`` where either was written to."""
    if not hasattr(x, ONCE):
        return x
    rows, *writes = getattr(x, ONCE)
    return rows if writes == [rows._version, x._version] else x


def by_rows(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return ``layer`` of the rows of ``x``, of those that it repeats once; a new tensor."""
    rows = once(x)
    return repeat(layer(rows), len(x) // len(rows))


def random_signs(words: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """Return signs (D, count) of the first bits of ``words`` (D, W): +1 where a bit is 0."""
    bits = torch.arange(32, device=words.device)
    ones = (words.to(torch.int64)[:, :, None] >> bits) & 1
    return (1 - 2 * ones.flatten(1)[:, :count]).to(dtype)


def weighted_signs(words: Tensor, count: int, weights: Tensor) -> Tensor:
    """Return :func:`random_signs` with row d times weights[d], (D, count) in the type of ``weights``."""
    if words.device.type != "cpu":
        kernels = gpu.sum_kernels(weights)
        if kernels is not None and words.dtype == torch.uint32 and words.stride(1) == 1:
            result: Tensor = kernels.weighted_signs(words, count, weights)
            return result
        return random_signs(words, count, weights.dtype) * weights[:, None]
    ones = np.unpackbits(words.numpy().view(np.uint8), axis=1, count=count, bitorder="little").view(np.bool_)
    values = weights[:, None].numpy()
    return torch.from_numpy(np.where(ones, -values, values))


def short_order(size: int, device: torch.device) -> bool:
    """Return whether places in an order of ``size`` things have 16 bits there; otherwise they have 32."""
    return device.type == "cpu" and size <= 2**SHORT_ORDER


def random_orders(words: Tensor, kept: int) -> Tensor:
    """Return the first ``kept`` of a random order of n things, (D, kept), by words (D, n): int16 for short ones on a CPU.

    Things are sorted by their words, with a thing's own number in the lowest bits: one sort of plain numbers, which is
    several times as fast as an argsort.
    """
    size = words.shape[1]
    bits = max(1, (size - 1).bit_length())
    if short_order(size, words.device):
        mask = np.uint32((1 << bits) - 1)
        keys = words.numpy() & ~mask
        keys |= np.arange(size, dtype=np.uint32)
        keys.sort(axis=1)
        # short types, since sums and passes take as long as reading them
        return torch.from_numpy(np.bitwise_and(keys[:, :kept], mask, dtype=np.uint32).astype(np.int16))
    high = words.to(torch.int64) << (0 if bits <= SHORT_ORDER else bits)
    low = (1 << bits) - 1
    sorted_keys = ((high & ~low) | torch.arange(size, device=words.device)).sort(dim=1).values
    return (sorted_keys[:, :kept] & low).to(torch.int32)


def placed_values(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Return vectors (D, count) with ``values`` (r,) at the places ``index`` (D, r) of each, and zeros elsewhere."""
    return values.new_zeros(len(index), count).scatter_(1, index.long(), values.expand(len(index), -1))


@dataclass(frozen=True)
class Geometry:
    """Geometry of a convolution: a number for each dimension (two: vertical, horizontal), and the groups of channels."""

    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1


def out_sizes(image: Sequence[int], kernel: Sequence[int], geometry: Geometry) -> list[int]:
    """Return the sides of a convolution's output for images, or volumes, of such sides."""
    return [
        (side + 2 * pad - gap * (taps - 1) - 1) // step + 1
        for side, pad, gap, taps, step in zip(image, geometry.padding, geometry.dilation, kernel, geometry.stride, strict=True)
    ]


class MemberBatch:
    """Batch of ``examples`` rows for each of ``directions`` directions, once for every one of ``scales``."""

    def __init__(self, scales: Sequence[float], directions: int, examples: int) -> None:
        self.scales, self.directions, self.examples = tuple(scales), directions, examples
        self.count = len(self.scales) * directions * examples

    def scaled(self, factor: float) -> "MemberBatch":
        """Return the batch of the same rows with all scales times ``factor``."""
        return MemberBatch([factor * scale for scale in self.scales], self.directions, self.examples)

    def one_side(self) -> "MemberBatch":
        """Return the batch of the rows of one side, with scale 1."""
        return MemberBatch([1.0], self.directions, self.examples)

    def flip(self, x: Tensor, words: Tensor, channel: int) -> Tensor:
        """Return ``x`` with the channels' signs of each row's direction; words (D, W), ``channel``: dimension of the channels."""
        kernels = gpu.row_kernels(x)
        if kernels is not None:
            return kernels.flip(x, words, self._rows(), channel)
        return self.by_direction(x, _signs(words, x, channel), channel, torch.mul)

    def add_flipped(self, y: Tensor, t: Tensor, words: Tensor, channel: int) -> Tensor:
        """Return y + scale * t with the channels' signs of each row's direction; may write to ``y``."""
        kernels = gpu.row_kernels(y)
        if kernels is not None:
            return kernels.add_flipped(y, t, words, self.scales, self._rows(), channel)
        return self.add(y, self.by_direction(t, _signs(words, t, channel), channel, torch.mul))

    def add(self, y: Tensor, t: Tensor) -> Tensor:
        """Return y + scale * t for the rows of a batch; may write to ``y``."""
        for side, scale in enumerate(self.scales):
            half = slice(side * self.directions * self.examples, (side + 1) * self.directions * self.examples)
            if y.device.type == "cpu":
                y[half] += scale * t[half]
            else:
                y[half].add_(t[half], alpha=scale)  # one pass over memory instead of three
        return y

    def add_vectors(self, y: Tensor, vectors: Tensor, channel: int) -> Tensor:
        """Return y + scale * the vector of each row's direction; ``vectors`` (D, C); may write to ``y``."""
        if y.device.type != "cpu":
            return self._add_vectors_by_torch(y, vectors, channel)
        target = _channels_last(y, channel)
        if target is None:
            return self.add(y, self.by_direction(torch.zeros_like(y), vectors.to(y.dtype), channel, torch.add))
        row_kernels.add_vectors(target, vectors.to(y.dtype).contiguous().numpy(), self.examples, self._scales(y.dtype))
        return y

    def _add_vectors_by_torch(self, y: Tensor, vectors: Tensor, channel: int) -> Tensor:
        shape = [self.directions, 1] + [1] * (y.dim() - 1)
        shape[channel % y.dim() + 1] = vectors.shape[1]
        for half, scale in zip(y.unflatten(0, (len(self.scales), self.directions, self.examples)), self.scales, strict=True):
            half.add_(vectors.to(y.dtype).view(shape), alpha=scale)
        return y

    def gather(self, x: Tensor, index: Tensor, channel: int) -> Tensor:
        """Return ``x`` of a batch at channels index[direction] (D, r): (n, .., r, ..)."""
        kernels = gpu.row_kernels(x)
        if kernels is not None:
            return kernels.gather(x, index, self._rows(), channel)
        source = _channels_last(x, channel)
        shape = [*x.shape]
        shape[channel] = index.shape[1]
        if source is None:
            return torch.gather(x, channel, self._spread(index, x.dim(), channel).expand(shape))
        # channels last in memory as those of x, which the convolution that follows wants, too
        out = x.new_empty(*x.movedim(channel, -1).shape[:-1], index.shape[1]).movedim(-1, channel)
        row_kernels.gather(source, index.numpy(), self.examples, _pixels(out, channel))
        return out

    def add_scattered(self, y: Tensor, t: Tensor, index: Tensor, channel: int) -> Tensor:
        """Return y with scale * t added to channels index[direction] (D, r); ``t`` (n, .., r, ..); may write to ``y``."""
        kernels = gpu.row_kernels(y)
        if kernels is not None:
            return kernels.add_scattered(y, t, index, self.scales, self._rows(), channel)
        target, source = _channels_last(y, channel), _channels_last(t, channel)
        if target is None or source is None:
            places = self._spread(index, t.dim(), channel).expand(t.shape)
            return self.add(y, torch.zeros_like(y).scatter_(channel, places, t))
        row_kernels.add_scattered(target, source, index.numpy(), self.examples, self._scales(y.dtype))
        return y

    def filtered(self, x: Tensor, filters: Tensor, geometry: Geometry) -> Tensor:
        """Filter images (n, C, H, W) by each direction's ``filters`` (D, R, C / groups, kh, kw) to (n, groups * R, H', W').

        Volumes (n, C, T, H, W) too.
        """
        kernels = gpu.row_kernels(x) if x.dim() == 4 else None
        if kernels is not None:
            return kernels.filtered(x, filters, self._rows(), geometry)
        if x.dim() != 4 or geometry.groups > 1 or filters.shape[2] == 1 or _channels_last(x, 1) is None:
            return self._filtered_by_torch(x, filters, geometry)
        # all taps of all pixels by one matrix product per row, then a sum over the taps of each output pixel
        rank, _, height, width = filters.shape[1:]
        bank = self.repeated(filters.permute(0, 1, 3, 4, 2).flatten(1, 3))
        taps = torch.bmm(bank, x.permute(0, 2, 3, 1).flatten(1, 2).transpose(1, 2))
        out = x.new_empty(self.count, *out_sizes(x.shape[2:], (height, width), geometry), rank)
        options = geometry.stride, geometry.padding, geometry.dilation
        row_kernels.gather_taps(taps.view(-1, rank, height, width, *x.shape[2:]).numpy(), *options, out.numpy())
        return out.permute(0, 3, 1, 2)

    def _filtered_by_torch(self, x: Tensor, filters: Tensor, geometry: Geometry) -> Tensor:
        """Filter by one grouped convolution: every row of the batch is a group with its own filters."""
        rank, inner, *kernel = filters.shape[1:]
        weight = self.repeated(filters).repeat_interleave(geometry.groups, 0).reshape(-1, inner, *kernel)
        merged = x.reshape(1, -1, *x.shape[2:])
        convolved = F.conv2d if x.dim() == 4 else F.conv3d
        groups = self.count * geometry.groups
        result = convolved(merged, weight, None, geometry.stride, geometry.padding, geometry.dilation, groups)
        return result.view(self.count, geometry.groups * rank, *result.shape[2:])

    def projected(self, x: Tensor, filters: Tensor) -> Tensor:
        """Return features (n, .., C) times each direction's ``filters`` (D, R, C): (n, .., R)."""
        flat = x.reshape(self.count, x.shape[1:-1].numel(), x.shape[-1])
        kernels = gpu.row_kernels(x)
        if kernels is not None:
            out = kernels.projected(flat, filters, self._rows())
        elif x.dtype in COMPILED and x.device.type == "cpu" and x.numel():
            out = x.new_empty(self.count, flat.shape[1], filters.shape[1])
            row_kernels.projected(flat.contiguous().numpy(), filters.contiguous().numpy(), self.examples, out.numpy())
        else:
            out = torch.bmm(flat, self.repeated(filters).transpose(1, 2))
        return out.view(*x.shape[:-1], filters.shape[1])

    def add_outer(self, y: Tensor, maps: Tensor, factors: Tensor, channel: int, groups: int = 1) -> Tensor:
        """Return y + scale * sum over q of maps[group(c), q] * factors[direction, q, c]; may write to ``y``.

        ``maps`` has groups * R channels where ``y`` has C; ``factors`` (D, R, C).
        """
        kernels = gpu.row_kernels(y)
        if kernels is not None:
            return kernels.add_outer(y, maps, factors, self.scales, self._rows(), channel, groups)
        target, source = _channels_last(y, channel), _channels_last(maps, channel)
        if target is None or source is None:
            rank, each = factors.shape[1], y.shape[channel] // groups
            last = maps.movedim(channel, -1)
            split = last.reshape(*last.shape[:-1], groups, 1, rank)
            by_row = self.repeated(factors).view(self.count, rank, groups, each).permute(0, 2, 3, 1)
            by_row = by_row.view(self.count, *[1] * (y.dim() - 2), groups, each, rank)
            return self.add(y, (split * by_row).sum(-1).flatten(-2).movedim(-1, channel))
        row_kernels.add_outer(target, source, factors.contiguous().numpy(), self.examples, self._scales(y.dtype), groups)
        return y

    def affine(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
        """Return x * weight + bias, each (S or 1, D or 1, values of ``shape``); ``shape`` broadcasts against a row of ``x``."""
        split = x.reshape(len(self.scales), self.directions, self.examples, *x.shape[1:])
        for operation, values in ((torch.mul, weight), (torch.add, bias)):
            if values is not None:
                split = operation(split, values.reshape(*values.shape[:2], 1, *shape).to(x.dtype))
        return split.reshape(x.shape)

    def layer_norm(self, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        """Return the layer norm of x over as many values as ``weight`` and ``bias`` (S or 1, D or 1, values) have, with these."""
        count, given = len(self.scales) * self.directions, (weight, bias)
        factors, shifts = (part.expand(len(self.scales), self.directions, -1).flatten(0, 1) for part in given)
        return layer_norm(x.reshape(count, -1, weight.shape[2]), factors, shifts, eps).view(x.shape)

    def _rows(self) -> tuple[int, int]:
        return self.directions, self.examples

    def _scales(self, dtype: torch.dtype) -> np.ndarray:
        return np.array(self.scales, np.float32 if dtype == torch.float32 else np.float64)

    def repeated(self, factors: Tensor) -> Tensor:
        """Return factors (D, ..) repeated for every row: (n, ..)."""
        shape = (len(self.scales), self.directions, self.examples, *factors.shape[1:])
        return factors[None, :, None].expand(shape).reshape(self.count, *factors.shape[1:])

    def _spread(self, index: Tensor, dims: int, channel: int) -> Tensor:
        """Index (D, r) repeated for every row: (n, 1, .., r, .., 1) of ``dims`` dimensions."""
        shape = [self.count] + [1] * (dims - 1)
        shape[channel] = index.shape[1]
        return self.repeated(index.to(torch.int64)).view(shape)

    def by_direction(self, x: Tensor, values: Tensor, channel: int, operation: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return ``operation`` of each row and its direction's ``values`` (D, C)."""
        shape = [1, self.directions, 1] + [1] * (x.dim() - 1)
        shape[channel % x.dim() + 2] = values.shape[1]
        split = x.reshape(len(self.scales), self.directions, self.examples, *x.shape[1:])
        return operation(split, values.view(shape)).reshape(x.shape)


def _signs(words: Tensor, x: Tensor, channel: int) -> Tensor:
    """Return the signs (D, C) of the channels of ``x``, in its type."""
    ones = torch.ones(len(words), dtype=torch.float32, device=words.device)
    return weighted_signs(words, x.shape[channel], ones).to(x.dtype)


def _channels_last(x: Tensor, channel: int) -> np.ndarray | None:
    """View (n, pixels, C) for the compiled loops, or None where they cannot serve."""
    if x.device.type != "cpu" or x.dtype not in COMPILED or not x.numel():
        return None
    moved = x if channel == -1 else x.movedim(channel, -1)
    return _flattened(moved) if moved.is_contiguous() else None


def _pixels(x: Tensor, channel: int) -> np.ndarray:
    return _flattened(x if channel == -1 else x.movedim(channel, -1))


def _flattened(x: Tensor) -> np.ndarray:
    return x.numpy().reshape(len(x), -1, x.shape[-1])  # a view: what is asked for is contiguous


def layer_norm(x: Tensor, weights: Tensor, biases: Tensor, eps: float) -> Tensor:
    """Return the layer norm of members' rows x (B, .., C) over C, times ``weights`` (B, C) plus ``biases`` (B, C)."""
    flat, weights, biases = x.reshape(len(x), -1, x.shape[-1]), weights.to(x.dtype), biases.to(x.dtype)
    if x.device.type == "cpu" and x.dtype in COMPILED and x.numel():
        out, numbers = torch.empty_like(flat), torch.tensor([1 / x.shape[-1], eps], dtype=x.dtype)
        given = (part.contiguous().numpy() for part in (flat, weights, biases, numbers))
        row_kernels.normalised(*given, out.numpy())
    else:
        out = torch.addcmul(biases[:, None], F.layer_norm(flat, x.shape[-1:], None, None, eps), weights[:, None])
    return out.view(x.shape)


def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
              is_causal: bool = False, scale: float | None = None, **options: Any) -> Tensor:  # fmt: skip
    """Return torch's scaled dot product attention, of small heads (n, H, T, K) by compiled loops."""
    parts = query, key, value
    served = all(x.device.type == "cpu" and x.dtype == torch.float32 and x.dim() == 4 and x.numel() for x in parts)
    small = served and all(0 < x.shape[3] <= HEAD and (x.stride(3) == 1 or x.shape[3] == 1) for x in parts)
    alike = small and key.shape == (*query.shape[:2], key.shape[2], query.shape[3]) and value.shape[:3] == key.shape[:3]
    if not alike or attn_mask is not None or dropout_p or any(options.values()):
        return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **options)
    # heads of a position side by side, as torch has them: what follows joins them
    out = query.new_empty(len(query), query.shape[2], query.shape[1], value.shape[3]).transpose(1, 2)
    factor = np.float32(query.shape[3] ** -0.5 if scale is None else scale)
    attention_kernels.attended(*(x.numpy() for x in parts), factor, is_causal, out.numpy())
    return out
