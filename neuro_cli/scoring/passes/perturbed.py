"""One forward pass of an unmodified module for many members, each row of the batch with its member's parameters.

A torch function mode meets every call of the forward pass that gets an evolved parameter. Linear layers, convolutions and norms
are done for all members at once: the layer with the centre's parameters on all rows, and what the sampler's noise adds to it
(:class:`neuro_cli.sampler.base.Perturbation`). Any other use of a parameter raises
:class:`Unsupported`. An operation that mixes the examples of a batch would mix members: whoever uses this compares it
with single members first.

Legend: S sides, D directions, e examples, n = S D e rows, C channels.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from neuro_cli.core.chain import Chain, Link, chains_of
from neuro_cli.core.kernels import gpu
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.rows import by_rows
from neuro_cli.sampler.base import Perturbation
from neuro_cli.scoring.passes import recurrent
from neuro_cli.scoring.passes.dense import linear
from neuro_cli.scoring.passes.example_marks import with_mark
from neuro_cli.scoring.passes.forward import answered_by
from neuro_cli.scoring.passes.later import Rows
from neuro_cli.scoring.passes.number_reads import (
    NeedsCare,
    any_of_rows,
    follow,
    goes_over_rows,
    may_read,
    name_of,
    of_rows,
    reads,
    suspect,
)
from neuro_cli.scoring.passes.operators import ConvolutionOperator, LinearOperator, Unsupported, geometry_of, images_of, numbers
from neuro_cli.scoring.passes.outputs import by_tensor
from neuro_cli.scoring.passes.row_order import refuse_order
from neuro_cli.scoring.passes.tangent import tanh
from neuro_cli.scoring.passes.vectors_of_members import NORMS, PRODUCTS, TAKE_VECTORS, VectorsOfMembers


class PerturbedForward(VectorsOfMembers):
    """Context in which ``module`` answers n rows of input as the members of ``perturbation`` would.

    Input of n / S rows is what all sides have in common: the first layers then work on it once.
    """

    def __init__(self, module: nn.Module, layout: ParameterLayout, perturbation: Perturbation, careful: bool = True) -> None:
        super().__init__(module, layout, perturbation, careful)
        steps = ((part, chains_of(part, self._places)) for part in (module.modules() if perturbation.chains else ()))
        self._chains = [(part, partial(self._in_turn, called)) for part, called in steps if called is not None]

    def __enter__(self) -> Any:
        result = super().__enter__()
        for part, forward in self._chains:
            if part is self._module:
                self._forward = forward
            else:
                self._left.enter_context(answered_by(part, forward))
        return result

    def _in_turn(self, steps: Sequence[Chain | nn.Module], input: Any) -> Any:
        """Answer in place of a Sequential."""
        for step in steps:
            input = self._chain(step, input) if isinstance(step, Chain) else step(input)
        return input

    def _chain(self, chain: Chain, x: Any) -> Any:
        with torch._C.DisableTorchFunction():
            served = type(x) is Tensor and self._noise.serves(chain, x)
            if served:
                self._later.finish()  # x may be what waits
                made = self._noise.chain(chain, x)
        if not served:
            return chain.by_torch(x)
        self._count_points(made.numel() // (len(made) * chain.outputs), [link.weight for link in chain.links])
        return with_mark(made) if self._careful else made

    def _answered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._careful:
            return by_tensor(self._called(args, kwargs), self._output)
        given: dict[int, Tensor] = {}  # a tensor given twice stays one

        def mark(x: Any) -> Any:
            if not self._has_rows(x) or of_rows(x) or self._place(x) is not None:
                return x
            if id(x) not in given:
                given[id(x)] = with_mark(x.detach())  # no mark on the user's own
            return given[id(x)]

        with torch._C.DisableTorchFunction():
            one = len(args) == 1 and not kwargs and isinstance(args[0], Tensor)
            args, kwargs = ((mark(args[0]),), {}) if one else tree_map(mark, (args, kwargs))
        return by_tensor(self._called(args, kwargs), self._output)

    def _output(self, x: Tensor) -> Tensor:
        if not self._has_rows(x):
            raise Unsupported(f"an output of shape {tuple(x.shape)} for {self._rows.count} rows")
        refuse_order(x, lambda: "an output")
        self._note(x)
        return self._both_sides(x)

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # every operation of the pass comes by here, whatever its tensors are
        if self._later.waits:
            with torch._C.DisableTorchFunction():
                made = self._later.after(func, args, kwargs)
            if made is not NotImplemented:
                return with_mark(made) if self._careful else made
        handler = HANDLERS.get(func)
        if handler is not None:
            if args and id(args[0]) in self._places and func not in FIRST_PARAMETER:
                raise Unsupported(f"{name_of(func)} gets a parameter as its input")
            if self._computed.known and func not in TAKE_VECTORS and self._computed.has_any((*args, *kwargs.values())):
                raise Unsupported(f"{name_of(func)} gets what was computed from a parameter")
            with torch._C.DisableTorchFunction():  # no other mode looks at each of our own operations
                result = handler(self, *args, **kwargs)
            if result is not NotImplemented:
                if self._careful:
                    refuse_order(args, lambda: f"what {name_of(func)} gets")
                return with_mark(result) if self._careful else result
        given = [*args, *kwargs.values()] if kwargs else args
        parameter = self._uses_parameter(given)
        if parameter:
            with torch._C.DisableTorchFunction():
                made = self._computed.compute(func, args, kwargs, self._members)
            if made is not None:
                return made
        if not self._careful and not parameter:
            if suspect(func) and may_read(func, args):
                raise NeedsCare(f"{name_of(func)} may read values")
            return func(*args, **kwargs)
        rows = self._careful and any_of_rows(given)
        if (rows or parameter) and reads(func, args, kwargs):
            raise Unsupported(f"{name_of(func)} reads {'values of all members together' if rows else 'a parameter'}")
        if rows and goes_over_rows(func, args, kwargs, self._one_side):
            raise Unsupported(f"{name_of(func)} goes over the rows of all members")
        made = func(*args, **kwargs)
        # a parameter's shape or device may be read; a tensor computed from it would lack the members' noise
        if parameter and isinstance(made, Tensor | tuple | list) and _has_tensor(made):
            raise Unsupported(f"{name_of(func)} uses a parameter")
        if rows:
            follow(func, made, given, self._one_side)
        return made

    def _uses_parameter(self, values: Iterable[Any]) -> bool:
        # a loop: it runs at each operation, and a generator costs more than the look
        for value in values:
            if isinstance(value, list | tuple):
                if self._uses_parameter(value):
                    return True
            elif id(value) in self._places or id(value) in self._computed.known:
                return True
        return False

    def linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        made = self._linear_later(input, weight, bias) if self._inside else None
        return self._linear_now(input, weight, bias) if made is None else made

    def _linear_now(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return a linear layer, computed at once: a handler's own operations do not ask for what waits."""
        self._later.finish()
        if self._place(weight) is None and self._place(bias) is None:
            return F.linear(input, weight, bias)
        return self._linear(LinearOperator(), input, weight, bias)

    def _linear_later(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
        """Return a linear layer that is computed when its outcome is used, None where it has to be at once."""
        place, shift, count = self._place(weight), self._place(bias), self._rows.count
        if place is None or (bias is not None and shift is None) or input.dim() < 2 or input.shape[-1] != weight.shape[1]:
            return None
        total = input.shape[0]
        if not input.numel() or (total % count and total != self._one_side):
            return None
        x = input.reshape(count, -1, input.shape[-1]) if total > count else input

        def rows() -> Rows:
            sides = 1 if total < count else len(self._rows.scales)
            points = x.reshape(sides, self._rows.directions, -1, x.shape[-1])
            return points.contiguous(), (max(total, count), *input.shape[1:-1])

        made = self._later.layer(Link(weight, bias, place, shift), input, rows)
        if made is not None:
            self._count(LinearOperator(), made.view(count, -1, len(weight)), x, weight)
        return made

    def addmm(self, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """Linear layer with its weight the other way round, as GPT-2 has them; NotImplemented without an evolved parameter."""
        evolved = self._place(mat2) is not None or self._place(input) is not None
        if not evolved or input.dim() != 1 or beta != 1 or alpha != 1:
            return NotImplemented
        return self._linear(LinearOperator(transposed=True), mat1, mat2, input)

    def _linear(self, operator: LinearOperator, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        count, rows = self._rows.count, len(input) if input.dim() < 2 else input.shape[0]  # len() of a tensor takes microseconds
        if input.dim() < 2 or (rows % count and rows != self._one_side):
            raise Unsupported(f"a linear layer gets {rows} rows for {count} examples")
        # a module may have folded points into the batch, (n points, ..): a member's own points stay together
        x = input.reshape(count, -1, *input.shape[1:]) if rows > count else input
        result = self._whole(operator, x, weight, bias)
        if result is None:
            matrix = weight.t() if operator.transposed else weight
            centre = by_rows(lambda part: linear(part, matrix, bias), x)
            result = self._layer(operator, centre, x, weight, bias)
        return result.reshape(rows, *result.shape[2:]) if rows > count else result

    def convolution(
        self, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        if self._place(weight) is None and self._place(bias) is None:
            return NotImplemented
        if input.dim() != weight.dim() or len(input) not in (self._rows.count, self._one_side):
            raise Unsupported(f"a convolution gets {tuple(input.shape)} for {self._rows.count} examples")
        place = self._place(weight)
        if place is not None and place.groups != groups:
            raise Unsupported(f"a convolution of {groups} groups with the weight of {place.groups}")
        operator, images = ConvolutionOperator(geometry_of(weight, stride, padding, dilation, groups)), images_of(input)
        # kernels of a GPU take images alone
        result = self._whole(operator, images, weight, bias) if images.device.type == "cpu" or input.dim() == 4 else None
        if result is None:
            kernel, shift = weight.to(input.dtype), None if bias is None else bias.to(input.dtype)
            centre = by_rows(lambda part: operator(part, kernel, bias=shift), images)
            result = self._layer(operator, centre, images, weight, bias)
        return result.squeeze(2) if input.dim() == 3 else result

    def _whole(self, operator: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
        """Return the layer for all members by the sampler's own way, where it has one."""
        place = self._place(weight)
        result = None if place is None else self._noise.layer(place, self._place(bias), x, weight, bias, operator)
        if result is not None:
            self._count(operator, result, x, weight)
        return result

    def _count(self, operator: Any, y: Tensor, x: Tensor, weight: Tensor) -> None:
        """Note the size of a layer: its outputs ``y`` and inputs ``x``."""
        if self._careful:  # counts matter in a trial alone
            self.largest = max(self.largest, y.numel() // len(y), x.numel() // len(x))
            self.products += y.numel() // len(y) * (weight.numel() // y.shape[operator.channel])
            self.convolved |= operator.geometry is not None

    def _count_points(self, points: int, weights: Sequence[Tensor]) -> None:
        """Note the size of layers that compiled loops compute in one call, each on as many ``points`` of a row."""
        if self._careful:
            self.largest = max(self.largest, points * max(max(weight.shape) for weight in weights))
            self.products += points * sum(weight.numel() for weight in weights)

    def _layer(self, operator: Any, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        self._count(operator, y, x, weight)
        if len(x) == self._rows.count:
            return self._perturbed(operator, y, x, weight, bias)
        # one side's input, so the noise is worked out once, and each side adds its multiple. From here on sides differ
        with self._noise.of(self._rows.one_side()):
            step = self._perturbed(operator, torch.zeros_like(y), x, weight, bias)
        return torch.cat([torch.add(y, step, alpha=scale) for scale in self._rows.scales])

    def _perturbed(self, operator: Any, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        place = self._place(weight)
        if place is not None:
            y = self._noise.apply(place, x, y, operator)
        place = self._place(bias)
        return y if place is None else self._noise.rows.add_vectors(y, self._noise.vectors(place), operator.channel)

    def max_pool2d(
        self, input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:  # fmt: skip
        kernels = gpu.layer_kernels(input) if input.dim() == 4 and not (ceil_mode or return_indices) else None
        if kernels is None or numbers(padding, 2) != (0, 0) or numbers(dilation, 2) != (1, 1):
            plain: Any = F.max_pool2d  # one function of two shapes of answers
            return plain(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        window = numbers(kernel_size, 2)
        result: Tensor = kernels.pooled(input, window, numbers(stride, 2) if stride else window)
        return result

    def embedding(
        self, input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, *rest: Any,
        **named: Any,
    ) -> Any:  # fmt: skip
        """Return rows of a table with their noise, at indices (n, ..) or at indices that all rows share."""
        place = self._place(weight)
        if place is None:
            return NotImplemented
        if input.dim() < 2 or max_norm is not None:
            raise Unsupported(f"an embedding of shape {tuple(input.shape)}" if max_norm is None else "an embedding with max_norm")
        if len(input) == 1 or not input.stride(0):  # positions, the same for all rows
            input = input[:1].expand(self._rows.count, *input.shape[1:])
        elif not self._has_rows(input) or (self._careful and not of_rows(input)):
            raise Unsupported(f"an embedding of {len(input)} rows for {self._rows.count} examples")
        input = self._both_sides(input)
        index = input.reshape(len(input), -1)
        made = F.embedding(index, weight)
        self._note(made)
        return self._noise.add_lines(place, index, made).view(*input.shape, weight.shape[1])

    def recurrence(self, input: Tensor, hx: Any, *rest: Any, whole: Callable[..., Any], cell: recurrent.Cell) -> Any:
        """Return outputs and last states of a recurrent layer or cell, whose products have noise."""
        weights = rest[0] if isinstance(rest[0], list | tuple) else rest
        if self._uses_parameter((hx,)) or self._computed.has_any(weights):
            raise Unsupported("a recurrent layer gets a state, or weights, that are computed from a parameter")

        def of_all(state: Tensor) -> Tensor:  # (n, H), or (layers, n, H)
            rows = state.shape[-2]
            return state if rows % self._rows.count == 0 else torch.cat([state] * (self._rows.count // rows), -2)

        hx, step = tree_map(of_all, hx), recurrent.by_loops(cell) if self._noise.loops else cell
        if whole is recurrent.one_step:
            return whole(self._linear_now, step, input, hx, *rest)
        return whole(recurrent.rows_first(self._linear_now), step, input, hx, *rest, scan=partial(self._scanned, cell))

    def _scanned(
        self, cell: recurrent.Cell, x: Tensor, state: recurrent.State, weights: Sequence[Any], backwards: bool
    ) -> tuple[Tensor, recurrent.State] | None:
        """Return all steps of a recurrent layer by the sampler's own way, None where it has none."""
        places = [self._place(weight) for weight in weights]
        made = self._noise.recurrence(recurrent.CELLS.index(cell), x.transpose(0, 1), state, weights, places, backwards)
        if made is None:
            return None
        outputs, last = made
        self._count_points(outputs.numel() // (self._rows.count * outputs.shape[2]), weights[:2])
        return outputs.transpose(0, 1), last


def _has_tensor(made: Any) -> bool:
    return isinstance(made, Tensor) or any(isinstance(part, Tensor) for part in made)


SUMS = (torch.addmm, Tensor.addmm)
FIRST_PARAMETER = PRODUCTS | {*SUMS}
# functions by which modules of torch.nn and of transformers call these operations
HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {
    **dict.fromkeys((torch.tanh, Tensor.tanh), lambda _, *args, **options: tanh(*args, **options)),
    F.linear: PerturbedForward.linear,
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d), PerturbedForward.convolution),
    F.max_pool2d: PerturbedForward.max_pool2d,
    **{func: getattr(PerturbedForward, func.__name__) for func in NORMS},
    F.embedding: PerturbedForward.embedding,
    **dict.fromkeys(SUMS, PerturbedForward.addmm),
    **dict.fromkeys(PRODUCTS, PerturbedForward.product),
    **{func: partial(PerturbedForward.recurrence, whole=whole, cell=cell) for func, (whole, cell) in recurrent.FUNCTIONS.items()},
}
