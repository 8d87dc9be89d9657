"""What is noted of a clean pass: its calls, the layers among them, how their outputs are used, and other calls of interest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from neuro_cli.core.layout import Place


@dataclass
class Call:
    """One call of a pass. ``made``: what it gave; ``layer``: its number among the layers, None for no layer.

    ``fixed``: its number behind the layers as a call without parameters that changes go through, None for another one.
    ``apart``: it was taken apart, and the calls that it consists of follow.
    """

    func: Callable[..., Any]
    made: Any = None
    version: int = 0
    layer: int | None = None
    fixed: int | None = None
    apart: bool = False


@dataclass
class Use:
    """A call with a tensor as its first argument (else ``first`` is False), and the other ones; ``users`` of what it gives."""

    func: Callable[..., Any]
    first: bool
    args: Sequence[Any]
    kwargs: dict[str, Any]
    users: "list[Use]" = field(default_factory=list)


@dataclass
class FoundLayer:
    """A step of a layer: a call that uses parameters, or continues a layer. ``call``: its number.

    ``raw``: outputs with their graph; ``data``: place of the one argument that comes of the examples, where the call does no more
    than add to it or multiply it; ``before``: number of the step that this argument is the outputs of, None for none.
    ``earlier``: steps that it is one layer with, in order. ``joined``: another step continues it, and is the layer in its place.
    ``sources``: numbers of what it depends on without another one between; ``summed``: it gets the sum of their outputs.
    ``users``: calls that get the outputs.
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
    earlier: "tuple[FoundLayer, ...]" = ()
    users: list[Use] = field(default_factory=list)
    sources: frozenset[int] = frozenset()
    summed: bool = False


@dataclass
class FoundFixed:
    """A call without parameters. ``call``: its number; ``args``: its tensors, of attention: queries, keys, values (B, h, T, d).

    ``sources``: of each of them the one number that it is a view of, or the several whose sum it is; none where that is
    unknown. ``options``: the other arguments.
    """

    call: int
    func: Callable[..., Any]
    args: Sequence[Tensor]
    sources: Sequence[frozenset[int]]
    options: dict[str, Any]
