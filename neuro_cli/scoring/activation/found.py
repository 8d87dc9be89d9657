"""Notes of a clean pass: its calls, the layers among them, and how their outputs are used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from neuro_cli.core.layout import Place
from neuro_cli.scoring.activation.link import Link


@dataclass
class Call:
    """One call of a pass. ``made``: what it gave; ``layer``: its number among the layers, None for no layer.

    ``link``: its number among the links; ``apart``: it was taken apart, and the calls that it consists of follow.
    """

    func: Callable[..., Any]
    made: Any = None
    version: int = 0
    layer: int | None = None
    link: int | None = None
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
    ``users``: calls that get the outputs. ``link``: its place in the chain of changes, None where there is none.
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
    link: Link | None = None
