"""Links of the chain of changes of a clean pass: how a change of a layer's outputs reaches the layers behind it.

The chain is a graph of autograd's, of calls without parameters alone. A call with parameters stands in it as a link, through
which derivatives go by a model that is learnt from changes, never by the weights; so does a step (``round``, ``sign``), which
has no slope.

Legend: B examples.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from neuro_cli.scoring.activation.arguments import NAMES, Arguments
from neuro_cli.scoring.activation.instead import TWICE
from neuro_cli.scoring.activation.marks import DATA, tensors
from neuro_cli.scoring.activation.response import Convolution, Dense, Diagonal, ImageForm, Response
from neuro_cli.scoring.bodies import overwrites
from neuro_cli.scoring.operators import Unsupported, geometry_of

NUMBERS = 1 << 24  # most of a model
# what a change makes of them does not depend on the parameters that are added, put beside or chosen
EXACT = frozenset((
    torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__, torch.sub, Tensor.sub, Tensor.sub_,
    Tensor.__sub__, Tensor.__rsub__, torch.neg, Tensor.neg, torch.cat, torch.concat, torch.stack, torch.where, Tensor.where,
    F.scaled_dot_product_attention,
))  # fmt: skip
SCALED = frozenset((
    torch.mul, Tensor.mul, Tensor.mul_, Tensor.__mul__, Tensor.__rmul__, Tensor.__imul__, torch.div, Tensor.div,
    Tensor.__truediv__, torch.true_divide, Tensor.true_divide,
))  # fmt: skip
PRODUCTS = frozenset((F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, torch.addmm, torch.bmm, torch.baddbmm))


class Link:
    """A call in the chain. ``names``: of its parameters; calls with the same ones and ``form`` have one model.

    ``place``: of the input among the call's tensors; ``inputs``: what the model gets of it in the clean pass, after ``before``;
    None for a call that passes changes on as they are, or not at all. ``response``: the model; ``derivative``: of what is taken
    back, by the ``outputs``, None before that or where nothing is.
    """

    def __init__(
        self,
        outputs: Tensor,
        names: tuple[str, ...] = (),
        place: int | None = None,
        inputs: Tensor | None = None,
        before: Callable[[Tensor], Tensor] | None = None,
        make: Callable[[torch.device], Response] | None = None,
        form: tuple[Any, ...] = (),
    ) -> None:
        self.outputs, self.names, self.place, self.inputs, self._before = outputs, names, place, inputs, before
        self._make, self.form = make, form
        self.response: Response | None = None
        self.derivative: Tensor | None = None

    @property
    def learns(self) -> bool:
        """Tell whether changes go through a model."""
        return self._make is not None

    def made(self, device: torch.device) -> Response:
        """A model that knows nothing."""
        assert self._make is not None
        return self._make(device)

    def changes(self, shown: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Changes, in float32, of what the model gets and of the outputs, by input and outputs in a pass or a mirrored pair."""
        assert self.inputs is not None
        met = [(x if self._before is None else self._before(x), made) for x, made in shown]
        if len(met) == 1:
            return (met[0][0] - self.inputs).float(), (met[0][1] - self.outputs).float()
        (up, above), (down, below) = met
        return (up - down).float() / 2, (above - below).float() / 2

    def taken_back(self, derivative: Tensor) -> Tensor | None:
        """Derivative by what the link gets in the chain."""
        self.derivative = derivative
        if self._make is None:
            return derivative
        if self.response is None or self.inputs is None:
            return None
        return self.response.taken_back(derivative, self.inputs.shape)


class _Chained(torch.autograd.Function):
    """The outputs of a link; derivatives by them go back through it. ``root``: leaf that all derivatives are taken to."""

    @staticmethod
    def forward(ctx: Any, link: Link, root: Tensor, x: Tensor | None, keep: bool) -> Tensor:
        ctx.link = link
        return link.outputs.clone() if keep else link.outputs.detach()

    @staticmethod
    def backward(ctx: Any, derivative: Tensor) -> tuple[None, None, Tensor | None, None]:
        taken = ctx.link.taken_back(derivative)
        return None, None, taken if ctx.needs_input_grad[2] else None, None


def chained(link: Link, root: Tensor, x: Tensor | None, keep: bool) -> Tensor:
    """The outputs of ``link`` behind ``x`` in the chain, None for what begins it.

    ``keep``: what the link knows of the clean pass apart from tensors that later calls may overwrite.
    """
    if keep and link.inputs is not None:
        link.inputs = link.inputs.clone()
    with torch.enable_grad():
        made: Tensor = _Chained.apply(link, root, x, keep)
    return made


def link_of(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], outputs: Tensor, names: tuple[str, ...]
) -> tuple[Link, Tensor | None]:
    """Link of a call with parameters that gives ``outputs``, and what it gets in the chain, None for nothing."""
    given = list(tensors([*args, *kwargs.values()]))
    before = [place for place, tensor in enumerate(given) if hasattr(tensor, DATA) and tensor.requires_grad]
    if not before:
        return Link(outputs, names), None
    if func in EXACT:
        return _exact(func, args, kwargs, outputs, names)
    if len(before) > 1:
        return Link(outputs, names), None
    [place] = before
    x = given[place]
    call = Arguments(func, args, kwargs) if func in NAMES else None
    if call is not None and call.norm:
        with torch.enable_grad():
            normal = call.normal(x)
        shape = call.affine_shape(x)
        made = Link(outputs, names, place, normal.detach(), call.normal, lambda device: Diagonal(shape, device), ("norm", shape))
        return made, normal
    form = _form(func, args, kwargs, x, outputs)
    if form is None:
        return Link(outputs, names), None
    return Link(outputs, names, place, x.detach(), None, form[0], form[1:]), x


def _exact(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], outputs: Tensor, names: tuple[str, ...]
) -> tuple[Link, Tensor | None]:
    """Link of a call whose derivative does not depend on its parameters: autograd's goes through it."""

    def constant(tensor: Tensor) -> Tensor:
        return tensor if hasattr(tensor, DATA) else tensor.detach()

    given, named = tree_map_only(Tensor, constant, (list(args), kwargs))
    if overwrites(func) and isinstance(given[0], Tensor):
        given[0] = given[0].clone()  # the call itself overwrites it
    with torch.enable_grad():
        made = TWICE.get(func, func)(*given, **named)
    return Link(outputs, names), made if made.shape == outputs.shape else None


def step_of(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], made: Any, number: int
) -> tuple[Link, Tensor] | None:
    """Link ``number``, of a call without parameters and without a slope, number by number, and what it gets; else None."""
    if not isinstance(made, Tensor) or made.requires_grad or not made.is_floating_point() or overwrites(func):
        return None
    given = list(tensors([*args, *kwargs.values()]))
    before = [place for place, tensor in enumerate(given) if tensor.requires_grad]
    if len(before) != 1 or given[before[0]].shape != made.shape:
        return None
    x = given[before[0]]
    shape = (1,) * x.dim()
    form = ("step", number)  # each has a model of its own
    return Link(made, (), before[0], x.detach(), None, lambda device: Diagonal(shape, device), form), x


def _form(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], x: Tensor, outputs: Tensor
) -> tuple[Any, ...] | None:
    """Maker of the model of a call, and the form that calls of one model share; None where it would be too large."""
    if func is F.conv2d and x.dim() == 4:
        form = _image_form(Arguments(func, args, kwargs), x)
        if form is not None:
            shape = tuple(outputs.shape[1:])
            return lambda device: Convolution(form, shape, device), "convolution", form, shape
    if func in SCALED and not kwargs and outputs.shape == x.shape:
        [other] = [tensor for tensor in tensors(args) if tensor is not x]
        size = (1,) * (x.dim() - other.dim()) + tuple(other.shape)
        return lambda device: Diagonal(size, device), "diagonal", size
    behind = list(tensors([*args, *kwargs.values()]))[-1] is not x  # the weight stands behind what it is multiplied with
    places = func in PRODUCTS and behind and 1 < x.dim() == outputs.dim() and x.shape[:-1] == outputs.shape[:-1]
    if not places and (x.dim() < 2 or outputs.dim() < 2 or len(x) != len(outputs)):
        return None
    sizes = (x.shape[-1], outputs.shape[-1]) if places else (math.prod(x.shape[1:]), math.prod(outputs.shape[1:]))
    if sizes[0] * sizes[1] > NUMBERS:
        return None
    return lambda device: Dense(*sizes, places, device), "dense", sizes, places


def _image_form(call: Arguments, x: Tensor) -> ImageForm | None:
    weight = call["weight"]
    try:
        geometry = geometry_of(weight, call["stride"], call["padding"], call["dilation"], 1)
    except Unsupported:  # padding that torch does not unfold
        return None
    return ImageForm(tuple(weight.shape[2:]), geometry, tuple(x.shape[1:]))
