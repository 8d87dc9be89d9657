"""The backward graph of a clean pass: it takes derivatives of the rewards from later layers to earlier ones, without weights.

It is autograd's graph of the calls without parameters. A call with parameters is a node of its own in it: derivatives pass
through a linear model of the call's response, never through the weights. A call that is linear in its input, or behind a norm
without parameters, is read off by unit inputs. A call of single values (PReLU) has the slope of its values around the input. Any
other is learnt from its changes in passes with noise in all layers. A step function (``round``, ``sign``), whose derivative is
zero, is a node with the slope of its mean under noise.

Legend: B examples.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.activation_noise.derivatives.arguments import NAMES, Arguments, FunctionOf, replaced
from neuro_cli.activation_noise.derivatives.replacements import REPLACEMENTS
from neuro_cli.activation_noise.derivatives.response import (
    Convolution,
    Dense,
    Diagonal,
    GroupedConvolution,
    ImageForm,
    Kernel,
    Response,
)
from neuro_cli.activation_noise.derivatives.step_functions import FLOOR, Step
from neuro_cli.scoring.passes.example_marks import DATA, tensors
from neuro_cli.scoring.passes.torch_bodies import overwrites

MODEL_VALUES = 1 << 24  # most values of a response model, 64 MiB: a larger call gets none
# calls whose derivative by the examples' data does not depend on the parameters: they are added, placed alongside or selected
PARAMETER_FREE = frozenset((
    torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__, torch.sub, Tensor.sub, Tensor.sub_,
    Tensor.__sub__, Tensor.__rsub__, torch.neg, Tensor.neg, torch.cat, torch.concat, torch.stack, torch.where, Tensor.where,
    F.scaled_dot_product_attention,
))  # fmt: skip
SCALED = frozenset((
    torch.mul, Tensor.mul, Tensor.mul_, Tensor.__mul__, Tensor.__rmul__, Tensor.__imul__, torch.div, Tensor.div,
    Tensor.__truediv__, torch.true_divide, Tensor.true_divide, Tensor.div_, Tensor.__itruediv__, Tensor.true_divide_,
))  # fmt: skip
PRODUCTS = frozenset((F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, torch.addmm, torch.bmm, torch.baddbmm))
# calls of single values: an output depends on the value of the input at its own place, and on parameters
WORDS = (
    "pow", "pow_", "clamp", "clamp_", "clamp_min", "clamp_max", "clip", "clip_", "maximum", "minimum", "fmax", "fmin", "hypot",
    "atan2", "arctan2", "xlogy", "logaddexp",
)  # fmt: skip
POINTWISE = SCALED | frozenset((
    torch.prelu, Tensor.__pow__, Tensor.__ipow__, Tensor.__rpow__, Tensor.__rtruediv__, Tensor.__rdiv__,
    *(getattr(home, word) for home in (torch, Tensor) for word in WORDS if hasattr(home, word)),
))  # fmt: skip
BIASED = frozenset((torch.addmm, torch.baddbmm))  # the bias comes first
MATMUL = frozenset((torch.matmul, Tensor.matmul, Tensor.__matmul__))
EINSUM = frozenset((torch.einsum, torch._VF.einsum))  # type: ignore[attr-defined]
TRANSPOSED = frozenset((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d))
CONVOLUTIONS = TRANSPOSED | frozenset((F.conv1d, F.conv2d, F.conv3d))
LEAST = 2**-10  # least size of a value for the distance to its neighbours, in units of the root mean square

MakeModel = Callable[[torch.device], Response]
Changes = Sequence[tuple[Tensor, Tensor]]  # input and outputs of a call in each of some passes


class BackwardNode:
    """A call in the backward graph. ``names``: its parameters. Nodes with these, ``form`` and function in common share a model.

    ``inputs``: the model's input in the clean pass, which is the call's own after ``preprocess``; None for a call that passes
    derivatives on as they are, or not at all. ``function``: the call, of its input. The model is read off what that gives for
    unit inputs, where ``position`` is None, or learns from passes in which the input is the call's tensor ``position``.
    ``response``: the model. ``derivative``: of the rewards by ``outputs``, None before it is computed or where it never is.
    """

    def __init__(
        self, outputs: Tensor, names: tuple[str, ...] = (), position: int | None = None, inputs: Tensor | None = None,
        preprocess: Callable[[Tensor], Tensor] | None = None, make_model: MakeModel | None = None, form: tuple[Any, ...] = (),
        function: FunctionOf | None = None,
    ) -> None:  # fmt: skip
        self.outputs, self.position, self.inputs, self._preprocess = outputs, position, inputs, preprocess
        self.make_model, self.names, self.key, self.function = make_model, names, (*names, *form), function
        self.result = outputs  # what the call gives in the graph
        self.response: Response | None = None
        self.derivative: Tensor | None = None

    @property
    def is_read(self) -> bool:
        """Return whether the model is read off for unit inputs: the call is linear in its input, and answers any number."""
        return self.function is not None and self.position is None

    def response_to(self, units: Tensor) -> tuple[Tensor, Tensor]:
        """Return the model's input for ``units`` as the call's, and the outputs, less those for zeros, in float32."""
        assert self.inputs is not None
        assert self.function is not None
        x = units.to(self.inputs.dtype)
        if self._preprocess is None:
            return x.float(), (self.function(x) - self.function(torch.zeros_like(x[:1]))).float()
        zero = torch.zeros_like(x)
        return (self._preprocess(x) - self._preprocess(zero)).float(), (self.function(x) - self.function(zero)).float()

    def from_zero(self, entries: int) -> tuple[Tensor, Tensor]:
        """Return the first ``entries`` of the input in the clean pass and of the outputs, less those for zeros, in float32."""
        assert self.inputs is not None
        assert self.function is not None
        zero = self.function(torch.zeros_like(self.inputs[:1]))
        return self.inputs[:entries].float(), (self.outputs[:entries] - zero).float()

    def changes(self, passes: Changes, entries: int) -> tuple[Tensor, Tensor]:
        """Return the changes, in float32, of the model's input and of the outputs in a noisy pass or a mirrored pair of them.

        ``entries``: number of the first axis' entries that are wanted.
        """
        assert self.inputs is not None
        seen = [(x[:entries], y[:entries]) for x, y in passes]
        if len(seen) == 1:
            return (seen[0][0] - self.inputs[:entries]).float(), (seen[0][1] - self.outputs[:entries]).float()
        (x_plus, y_plus), (x_minus, y_minus) = seen
        return (x_plus - x_minus).float() / 2, (y_plus - y_minus).float() / 2

    def pull_back(self, derivative: Tensor) -> Tensor | None:
        """Return the derivative by the node's input from that by its outputs, which it keeps."""
        self.derivative = derivative
        if self.make_model is None:
            return derivative
        if self.response is None or self.inputs is None:
            return None
        return self.response.pull_back(derivative, self.inputs.shape)


class StepNode(BackwardNode):
    """A step function in the backward graph: derivatives pass by the slope of the smoothed function."""

    def __init__(self, outputs: Tensor, step: Step) -> None:
        super().__init__(outputs)
        self._step = step
        self._slope: Tensor | None = None

    def pull_back(self, derivative: Tensor) -> Tensor:
        self.derivative = derivative
        if self._slope is None:
            self._slope = self._step.slope()
        return derivative * self._slope.to(derivative.dtype)


class PointwiseNode(BackwardNode):
    """A call of single values with parameters: derivatives pass by the slope between two values near the input."""

    def __init__(self, outputs: Tensor, names: tuple[str, ...], function: FunctionOf, x: Tensor) -> None:
        super().__init__(outputs, names, None, x.detach())
        self._values = function
        self._slope: Tensor | None = None

    @torch.no_grad()
    def _slopes(self) -> Tensor:
        # the error of a curved function is the size's square, that of rounding the float type's precision over the size
        x = self.inputs
        assert x is not None
        typical = max(float(x.square().mean().sqrt()), FLOOR)
        # proportional to the value: no step crosses zero, where PReLU turns
        size = torch.finfo(x.dtype).eps ** (1 / 3) * x.abs().clamp_min(LEAST * typical)
        above, below = x + size, x - size
        between = above - below  # rounded steps, not 2 size
        slopes = (self._values(above) - self._values(below)) / between
        return torch.where(slopes.isfinite(), slopes, 0.0)

    def pull_back(self, derivative: Tensor) -> Tensor:
        self.derivative = derivative
        if self._slope is None:
            self._slope = self._slopes()
        return derivative * self._slope.to(derivative.dtype)


class NodeFunction(torch.autograd.Function):
    """Autograd's view of a node. ``root``: a leaf that all nodes depend on, so that derivatives reach each of them."""

    @staticmethod
    def forward(ctx: Any, node: BackwardNode, root: Tensor, x: Tensor | None, copy: bool) -> Tensor:
        ctx.node = node
        return node.result.clone() if copy else node.result.detach()

    @staticmethod
    def backward(ctx: Any, derivative: Tensor) -> tuple[None, None, Tensor | None, None]:
        by_input = ctx.node.pull_back(derivative)
        return None, None, by_input if ctx.needs_input_grad[2] else None, None


def depends_on_steps(result: Tensor) -> bool:
    """Return whether the backward graph of ``result`` has a step function."""
    todo, seen = [result.grad_fn], set[Any]()
    while todo:
        function = todo.pop()
        if function is None or function in seen:
            continue
        if isinstance(getattr(function, "node", None), StepNode):
            return True
        seen.add(function)
        todo += [following for following, _ in function.next_functions]
    return False


def layer_node(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], outputs: Tensor, names: tuple[str, ...]
) -> tuple[BackwardNode, Tensor | None]:
    """Return the node of a call with parameters that gives ``outputs``, and its input in the graph, None for no input."""
    given = tensors([*args, *kwargs.values()])
    in_graph = [position for position, tensor in enumerate(given) if hasattr(tensor, DATA) and tensor.requires_grad]
    if not in_graph:
        return BackwardNode(outputs, names), None
    if func in PARAMETER_FREE:
        return _exact_node(func, args, kwargs, outputs, names)
    # a response model has real numbers
    if len(in_graph) > 1 or any(tensor.is_complex() for tensor in (outputs, given[in_graph[0]])):
        return BackwardNode(outputs, names), None
    [position] = in_graph
    x = given[position]
    call, function = Arguments(func, args, kwargs) if func in NAMES else None, FunctionOf(func, args, kwargs, x)
    if call is not None and call.is_norm:
        with torch.enable_grad():
            normal = call.normalised(x)
        shape = call.affine_shape(x)
        make: MakeModel = lambda device: Diagonal(shape, device)  # noqa: E731
        return BackwardNode(outputs, names, None, normal.detach(), call.normalised, make, ("norm", shape), function), normal
    if kwargs.get("rounding_mode"):
        return StepNode(outputs, Step(x, function)), x
    affine = _is_affine(func, args, position, given)
    if func in POINTWISE and outputs.shape == x.shape and not (affine and not kwargs):
        return PointwiseNode(outputs, names, function, x), x
    model = model_of(func, args, kwargs, x, outputs, affine)
    if model is None:
        return BackwardNode(outputs, names), None
    return BackwardNode(outputs, names, None if affine else position, x.detach(), None, *model, function), x


def _is_affine(func: Callable[..., Any], args: Sequence[Any], position: int, given: Sequence[Tensor]) -> bool:
    """Return whether a call is linear in a tensor, but for a constant, and can have any number of entries in its first axis."""
    x = given[position]
    others = [tensor for tensor in given if tensor is not x]
    if func in SCALED:
        linear = given[0] is x or "mul" in func.__name__
        return linear and not overwrites(func) and all(other.dim() < x.dim() or len(other) == 1 for other in others)
    if func in CONVOLUTIONS or _is_left_factor(func, given, x):
        return True
    if func in MATMUL:
        few = all(0 < other.dim() < x.dim() or (2 < other.dim() == x.dim() and len(other) == 1) for other in others)
        return few and (x.dim() > 2 or given[0] is x)
    return func in EINSUM and _keeps_examples(args, given, position)


def _is_left_factor(func: Callable[..., Any], given: Sequence[Tensor], x: Tensor) -> bool:
    """Return whether ``x`` is multiplied by one matrix from the right, and at most a bias is added.

    A matrix for each entry, or such a bias, would fix the number of entries.
    """
    others = [other.dim() for other in given if other is not x and other.dim() != 1]
    return func in PRODUCTS and given[func in BIASED] is x and others == [2]


def _keeps_examples(args: Sequence[Any], given: Sequence[Tensor], position: int) -> bool:
    """Return whether the first axis of an einsum's operand is the first one of its result, and no other operand has it."""
    equation, arrow, output = args[0].replace(" ", "").partition("->") if isinstance(args[0], str) else ("", "", "")
    terms = equation.split(",")
    if len(terms) != len(given):
        return False
    if not arrow:
        once = sorted(letter for letter in set(equation) if letter.isalpha() and equation.count(letter) == 1)
        output = "..." * ("..." in equation) + "".join(once)
    # axes of each operand that an ellipsis stands for, aligned at their ends
    unnamed = [tensor.dim() - len(term.replace("...", "")) for term, tensor in zip(terms, given, strict=True)]
    own = terms[position]
    if own.startswith("..."):
        others = [count for place, count in enumerate(unnamed) if place != position]
        return output.startswith("...") and unnamed[position] > max(others, default=0)
    return bool(own) and output[:1] == own[0] and equation.count(own[0]) == 1


def _exact_node(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], outputs: Tensor, names: tuple[str, ...]
) -> tuple[BackwardNode, Tensor | None]:
    """Return the node of a call whose derivative does not depend on its parameters, so that autograd's serves."""

    def constant(tensor: Tensor) -> Tensor:
        return tensor if hasattr(tensor, DATA) else tensor.detach()

    given = [replaced(value, constant) for value in args]
    named = {name: replaced(value, constant) for name, value in kwargs.items()}
    with torch.enable_grad():
        if overwrites(func) and isinstance(given[0], Tensor):
            given[0] = given[0].clone()  # the call itself overwrites it
        result = REPLACEMENTS.get(func, func)(*given, **named)
    return BackwardNode(outputs, names), result if result.shape == outputs.shape else None


def model_of(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], x: Tensor, outputs: Tensor, affine: bool
) -> tuple[MakeModel, tuple[Any, ...]] | None:
    """Return the maker of a call's response model and the form of that model; None where it would be too large."""
    if func in CONVOLUTIONS and x.dim() == outputs.dim():
        made = _convolution_of(func, Arguments(func, args, kwargs), x, outputs)
        if made is not None:
            return made
    if func in SCALED and not kwargs and outputs.shape == x.shape:
        [other] = [tensor for tensor in tensors(args) if tensor is not x]
        size = (1,) * (x.dim() - other.dim()) + tuple(other.shape)
        return lambda device: Diagonal(size, device), ("diagonal", size)
    given = tensors([*args, *kwargs.values()])
    by_position = _is_left_factor(func, given, x) and 1 < x.dim() == outputs.dim() and x.shape[:-1] == outputs.shape[:-1]
    if not by_position and (x.dim() < 2 or outputs.dim() < 2 - affine or len(x) != len(outputs)):
        return None
    sizes = (x.shape[-1], outputs.shape[-1]) if by_position else (math.prod(x.shape[1:]), math.prod(outputs.shape[1:]))
    if sizes[0] * sizes[1] > MODEL_VALUES:
        return None
    return lambda device: Dense(*sizes, by_position, device), ("dense", sizes, by_position)


def _convolution_of(
    func: Callable[..., Any], call: Arguments, x: Tensor, outputs: Tensor
) -> tuple[MakeModel, tuple[Any, ...]] | None:
    """Return the maker of a model of a convolution's kernel and its form; None for one that impulses do not show."""
    geometry, weight = call.geometry, call["weight"]
    if geometry is None or call["input"] is not x or x.dim() != weight.dim():
        return None
    groups, channels, transposed = call["groups"], outputs.shape[1], func in TRANSPOSED
    one = (1,) * (x.dim() == 3)  # lines are images of height 1
    sides = (*one, *outputs.shape[2:])
    form = ImageForm((*one, *weight.shape[2:]), geometry, (x.shape[1], *one, *x.shape[2:]), sides, transposed)
    if transposed or x.dim() == 5:
        return lambda device: Kernel(form, channels, groups, device), ("kernel", form, channels, groups)
    shape = tuple(outputs.shape[1:])
    if groups > 1:
        return lambda device: GroupedConvolution(form, channels, groups, device), ("grouped", form, shape, groups)
    return lambda device: Convolution(form, channels, device), ("convolution", form, shape)
