"""Records of a clean pass: its calls of torch, the layers among them, and the calls that use their outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from neuro_cli.activation_noise.derivatives.backward_graph import BackwardNode
from neuro_cli.core.layout import Place


@dataclass
class Call:
    """Call of a pass with its ``result``; ``version``: that tensor's counter of writes, which shows a later one.

    ``foreign``: a new tensor, its result or an argument, depends on the examples in a way that torch does not show. ``layer``,
    ``node``: its number among the layers and in the backward graph; None for neither. ``decomposed``: the function
    that runs in its place: its calls follow in the record, so this one is skipped. ``args``, ``kwargs``: its arguments;
    ``given``: identities of the tensors there. ``read``: Python may have read numbers of the examples.
    """

    func: Callable[..., Any]
    result: Any = None
    version: int = 0
    layer: int | None = None
    node: int | None = None
    decomposed: Callable[..., Any] | None = None
    foreign: bool = False
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    given: Sequence[int] = ()
    read: bool = False


@dataclass
class Use:
    """A call that gets a tensor, as its ``first`` argument or another one. ``users``: calls that get its result."""

    func: Callable[..., Any]
    first: bool
    args: Sequence[Any]
    kwargs: dict[str, Any]
    users: "list[Use]" = field(default_factory=list)


@dataclass
class LayerStep:
    """A call that uses parameters, or that scales or shifts a layer's outputs: a step of a layer. ``call``: its number.

    ``raw``: outputs with their graph. ``data``: position of the one argument that depends on the examples, where the call only
    adds to it or multiplies it; ``before``: number of the step whose outputs this argument is; both None otherwise.
    ``earlier``: steps of the same layer, in order. ``joined``: a later step of the same layer stands for it.
    ``users``: calls that get the outputs. ``node``: its node in the backward graph, None without such a graph.
    ``inner``: noise enters the call, whose result is not ``raw``.
    """

    func: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    call: int
    raw: Tensor
    places: Sequence[Place]
    parameters: Sequence[Tensor]
    data: int | None = None
    before: int | None = None
    joined: bool = False
    earlier: "tuple[LayerStep, ...]" = ()
    users: list[Use] = field(default_factory=list)
    node: BackwardNode | None = None
    inner: bool = False
