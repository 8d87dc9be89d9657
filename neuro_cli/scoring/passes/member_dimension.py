"""The members as a hidden dimension, as torch.vmap makes it: tensors in their real form and back, and parameters' values.

A custom function, torch's own way from one form to the other inside a map, costs a quarter of a millisecond a call.

Legend: S sides, D directions, B = S D members, e examples.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch

from neuro_cli.core.chain import Link
from neuro_cli.core.rows import MemberBatch
from neuro_cli.sampler.base import Operator, Perturbation
from neuro_cli.scoring.passes.later import Later, Rows
from neuro_cli.scoring.passes.operators import LinearOperator, Unsupported
from neuro_cli.scoring.passes.parameter_uses import Use, Uses, span

EXPANDED = 2**18  # values of a parameter that may be replaced by its members' values


class _Off:
    """Contexts of any threads, nested too, in which a switch of the process is off; afterwards it is as it was."""

    def __init__(self, read: Callable[[], bool], switch: Callable[[bool], None]) -> None:
        self._read, self._switch, self._lock = read, switch, threading.Lock()
        self._inside, self._before = 0, True

    @contextmanager
    def __call__(self) -> Iterator[None]:  # a decorator too
        with self._lock:
            if not self._inside:
                self._before = self._read()
                self._switch(False)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._switch(self._before)


# a map does not warn, in 300 letters, of each operation that torch cannot map and so repeats
quiet = _Off(lambda: True, _functorch._set_vmap_fallback_warning_enabled)  # type: ignore[attr-defined]
# torch's fused operation for a layer of ``nn.TransformerEncoder`` ignores replaced or adapted parts of it
unfused = _Off(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled)


class HiddenMembers:
    """The members of ``noise``, hidden by the map that begins with :meth:`begin`.

    ``largest``: values of one row in the largest tensor that was met; ``products``: of a number and a weight,
    for one member.
    """

    def __init__(self, uses: Uses, noise: Perturbation) -> None:
        self.uses, self.noise, self.rows = uses, noise, noise.rows
        self.count = len(self.rows.scales) * self.rows.directions
        self.largest = self.products = 0
        self.convolved = False  # some of the products are of convolutions
        self._level = 0
        self.later = Later(noise, self.hide)

    def begin(self) -> None:
        self._level = _functorch.current_level()

    def show(self, x: Tensor) -> Tensor:
        """Return ``x`` as it is, (B, *shape); one that all members share is repeated without a copy.

        Raises Unsupported inside a further map.
        """
        if _functorch.current_level() != self._level:
            raise Unsupported("the module uses torch.vmap itself")
        if not _functorch.is_batchedtensor(x):
            return x.expand(self.count, *x.shape)
        return _functorch.get_unwrapped(x).movedim(_functorch.maybe_get_bdim(x), 0)

    def hide(self, x: Tensor) -> Tensor:
        """Return ``x`` (B, *shape) as a tensor of ``shape``, of every member its own."""
        self.met(x[0].numel())
        return _functorch._add_batch_dim(x, 0, self._level)

    def everyone(self, output: Tensor) -> Tensor:
        """Return values of every member for an output that is a parameter or a piece of it."""
        result: Tensor = self.value(output, "an output")
        return result

    def met(self, values: int) -> None:
        """Note a tensor of ``values`` of one member."""
        self.largest = max(self.largest, values // self.rows.examples)

    def value(self, value: Any, user: str) -> Any:
        """Return a parameter's values of every member, in their shape as a view; whatever else, as it is.

        Raises Unsupported for a parameter of more than EXPANDED values, which the function ``user`` needs.
        """
        use = self.uses.get(value)
        if use is None:
            return value
        parameter, size = use.parameter, use.parameter.numel()
        if size > EXPANDED:
            raise Unsupported(f"{user} uses parameter {use.place.name} of {size:,} values: at most {EXPANDED:,} in such a use")
        values = (parameter + self.scales(parameter, parameter.dim() + 1) * self.noise.values(use.place)).flatten(0, 1)
        if not use.whole:
            # the parameter as it lies in memory: a view is an offset and strides there
            inside = values.new_empty(len(values), span(parameter))
            inside.as_strided(values.shape, (inside.shape[1], *parameter.stride())).copy_(values)
            values = inside.as_strided((len(values), *use.tensor.shape), (inside.shape[1], *use.tensor.stride()), use.offset)
        return self.hide(values)

    def scales(self, like: Tensor, dims: int) -> Tensor:
        """Return the scales of the sides, (S, 1, .., 1) with ``dims`` dimensions of one."""
        return torch.tensor(self.rows.scales, dtype=like.dtype, device=like.device).view(-1, *[1] * dims)

    def perturbed(self, use: Use, operator: Operator, x: Tensor, y: Tensor, bias: Use | None = None) -> Tensor:
        """Return ``y`` plus what the noise of a weight adds to ``operator`` on ``x``, rows (B k, ..) with k of each member.

        And the noise of ``bias``, a complete parameter. May write to ``y``.
        """
        self._count(use, operator, x if operator.transposed else y)
        with self._rows_of(x):
            y = self.noise.apply(use.place, x, y, operator)
            return y if bias is None else self.noise.rows.add_vectors(y, self.noise.vectors(bias.place), operator.channel)

    def _count(self, use: Use, operator: Operator, read: Tensor) -> None:
        """Note the products of a layer, by the activations ``read`` whose channels are the weight's rows."""
        self.products += read.numel() // self.count * (use.parameter.numel() // read.shape[operator.channel])
        self.convolved |= operator.geometry is not None

    def layer(self, use: Use, x: Tensor, bias: Use | None, operator: Operator) -> Tensor | None:
        """Layer of a whole weight and bias on rows (B k, ..) on a CPU, by the sampler's own way; None: it has none."""
        if x.device.type != "cpu":  # faster on a GPU for rows of one point only
            return None
        shift, parameter = (None, None) if bias is None else (bias.place, bias.parameter)
        with self._rows_of(x):
            result = self.noise.layer(use.place, shift, x, use.parameter, parameter, operator)
        if result is not None:
            self._count(use, operator, result)
        return result

    def layer_later(self, use: Use, input: Tensor, bias: Use | None) -> Tensor | None:
        """Linear layer of a whole weight and bias that is computed when its outcome is used; None: it has to be at once."""

        def rows() -> Rows:
            x = self.show(input)
            points = x.reshape(len(self.rows.scales), self.rows.directions, -1, x.shape[-1])
            return points.contiguous(), x.shape[:-1]

        shift, parameter = (None, None) if bias is None else (bias.place, bias.parameter)
        result = self.later.layer(Link(use.parameter, parameter, use.place, shift), input, rows)
        if result is not None:
            self._count(use, LinearOperator(), self.show(result))
        return result

    def _rows_of(self, x: Tensor) -> AbstractContextManager[None]:
        """Return a context in which the noise serves the rows of x, (B k, ..) with k of each member."""
        return self.noise.of(MemberBatch(self.rows.scales, self.rows.directions, len(x) // self.count))
