"""Norms and products with vectors of many members at once, each row with its member's vectors.

Legend: S sides, D directions, e examples, n = S D e rows, C channels.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.layout import ParameterLayout, Place
from neuro_cli.sampler.base import Perturbation
from neuro_cli.scoring.passes.computed_vectors import ComputedVectors
from neuro_cli.scoring.passes.forward import ManyForward
from neuro_cli.scoring.passes.number_reads import of_rows
from neuro_cli.scoring.passes.operators import Unsupported, normalized

PRODUCTS: frozenset[Any] = frozenset((torch.mul, torch.multiply, Tensor.mul, Tensor.multiply, Tensor.__mul__, Tensor.__rmul__))
NORMS: tuple[Callable[..., Any], ...] = (F.batch_norm, F.layer_norm, F.group_norm, F.instance_norm, F.rms_norm)
TAKE_VECTORS = PRODUCTS.union(NORMS)


class VectorsOfMembers(ManyForward):
    """Part of a pass that knows the evolved parameters, and vectors that are computed from them."""

    def __init__(self, module: nn.Module, layout: ParameterLayout, perturbation: Perturbation, careful: bool = True) -> None:
        super().__init__(module, layout, perturbation, careful)
        parameters = dict(module.named_parameters())
        self._places = {id(parameters[place.name]): place for place in layout.places}  # equality of tensors compares numbers
        self._noise, self._computed = perturbation, ComputedVectors()
        # counts of a row: values in the largest output of a layer; products of a number and a weight; if some are convolutions'
        self.largest, self.products, self.convolved = 0, 0, False

    def _note(self, x: Tensor) -> None:
        """Note the size of an activation where no layer of products has noise, so that none was counted."""
        if not self.products:
            self.largest = max(self.largest, x.numel() // len(x))

    def _evolved(self, value: Any) -> bool:
        """Return whether ``value`` is an evolved parameter, or computed from one."""
        return id(value) in self._places or id(value) in self._computed.known

    def _place(self, parameter: Tensor | None) -> Place | None:
        return None if parameter is None else self._places.get(id(parameter))

    def batch_norm(
        self, input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
        bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
    ) -> Tensor:  # fmt: skip
        """Batch norm with the statistics of each member's own examples."""
        input = self._both_sides(input)
        kept = input, running_mean, running_var, None, None, False, 0.0, eps
        result = self._normalised(input, eps) if training else F.batch_norm(*kept)
        return self._affine(result, weight, bias, (input.shape[1], *[1] * (input.dim() - 2)))

    def _normalised(self, x: Tensor, eps: float) -> Tensor:
        rows = self._rows
        split = x.reshape(rows.count // rows.examples, -1, *x.shape[1:])
        if split[0, :, 0].numel() < 2:
            raise Unsupported("batch norm of a single value for each channel")
        return normalized(split, [1, *range(3, split.dim())], eps).view(x.shape)

    def layer_norm(
        self, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:  # fmt: skip
        input = self._both_sides(input)
        if weight is not None and bias is not None:
            self._note(input)
            return self._rows.layer_norm(input, self._members(weight), self._members(bias), eps)
        inner = [1] * (input.dim() - 1 - len(normalized_shape))
        return self._affine(F.layer_norm(input, normalized_shape, None, None, eps), weight, bias, (*inner, *normalized_shape))

    def group_norm(
        self, input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
    ) -> Tensor:
        input = self._both_sides(input)
        shape = input.shape[1], *[1] * (input.dim() - 2)
        return self._affine(F.group_norm(input, num_groups, None, None, eps), weight, bias, shape)

    def instance_norm(
        self, input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
        weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:  # fmt: skip
        input = self._both_sides(input)
        result = F.instance_norm(input, running_mean, running_var, None, None, use_input_stats, 0.0, eps)
        return self._affine(result, weight, bias, (input.shape[1], *[1] * (input.dim() - 2)))

    def rms_norm(
        self, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        input = self._both_sides(input)
        inner = [1] * (input.dim() - 1 - len(normalized_shape))
        return self._affine(F.rms_norm(input, normalized_shape, None, eps), weight, None, (*inner, *normalized_shape))

    def product(self, one: Any, other: Any) -> Any:
        """Return rows (n, .., C) times a vector (C,), as in norms; NotImplemented if neither is an evolved vector."""
        x, weight = (other, one) if self._evolved(one) else (one, other)
        if not self._evolved(weight) or self._evolved(x) or not isinstance(x, Tensor):
            return NotImplemented
        if weight.dim() != 1 or not self._rows_of_vectors(x, len(weight)):
            raise Unsupported(f"a product with a parameter of shape {tuple(weight.shape)}")
        return self._affine(self._both_sides(x), weight, None, (*[1] * (x.dim() - 2), len(weight)))

    def _rows_of_vectors(self, x: Any, size: int) -> bool:
        """Return whether ``x`` (n, .., size) has rows of all members or of one side, or points folded into those of all."""
        rows = self._has_rows(x) or (x.dim() > 1 and not x.shape[0] % self._rows.count)
        return rows and x.dim() > 1 and x.shape[-1] == size and (not self._careful or of_rows(x))

    def _affine(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
        count = self._rows.count
        if len(x) == count:
            self._note(x)
            factors, shifts = (None if part is None else self._members(part) for part in (weight, bias))
            return self._rows.affine(x, factors, shifts, shape)
        # points that a module has folded into the batch, as for a linear layer
        return self._affine(x.reshape(count, -1, *x.shape[1:]), weight, bias, (1, *shape)).reshape(x.shape)

    def _members(self, parameter: Tensor) -> Tensor:
        """Return values of ``parameter``, or of what was computed from one, for all members: (S or 1, D or 1, values)."""
        if id(parameter) in self._computed.known:
            return self._computed.known[id(parameter)].members
        # the layout of the flat vector: a norm's parameters are never four-dimensional
        base, place = parameter.reshape(1, 1, -1), self._place(parameter)
        if place is None:
            return base
        noise = self._noise.vectors(place)[None]
        scales = torch.tensor(self._rows.scales, dtype=noise.dtype, device=base.device)
        return base.to(noise.dtype) + scales[:, None, None] * noise
