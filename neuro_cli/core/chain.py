"""Chains of linear layers with activations between them, which compiled loops compute in one call.

Legend: S sides, D directions, e examples, L layers, M numbers of the flat vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as modules

from neuro_cli.core.kernels.compiled import own_chain_kernels
from neuro_cli.core.layout import Place
from neuro_cli.core.rows import MemberBatch

# most weights of a layer, which are computed in the nearest cache, and rows of a member: fewer leave lanes of vectors empty, more
# are as fast by a BLAS
WEIGHTS, ROWS = 2**14, range(8, 65)
# the activation after a layer, as torch computes it; its place is its number in the loops, 0 for none
ACTIVATIONS: tuple[tuple[type[nn.Module], Callable[[Tensor], Tensor]], ...] = (
    (nn.Tanh, torch.tanh), (nn.ReLU, F.relu), (nn.GELU, F.gelu),
)  # fmt: skip
KINDS = {kind: number for number, (kind, _) in enumerate(ACTIVATIONS, 1)}


class Link(NamedTuple):
    """Linear layer, the places of its noise in the flat vector, None for a bias without, and the activation behind the layer."""

    weight: Tensor
    bias: Tensor | None
    place: Place
    shift: Place | None
    activation: int = 0


def outcomes(links: Sequence[Link], x: Tensor, noise: Tensor, scales: Sequence[float], out: Tensor) -> None:
    """Set ``out`` (S, D, m, O) to a chain of layers on x (S or 1, D, m, I), with noise (D, M), by compiled loops; float32."""
    rows, parts, start = list[list[int]](), list[Tensor](), 0
    for weight, bias, place, shift, activation in links:
        begin, moved = start + weight.numel(), -1 if shift is None else shift.start
        rows.append([*weight.shape[::-1], start, -1 if bias is None else begin, place.start, moved, activation])
        parts += [part.detach().reshape(-1) for part in (weight, bias) if part is not None]
        start = begin + (0 if bias is None else len(bias))
    points = x.shape[2]
    few = points < ROWS.start or (points in ROWS and all(link.weight.numel() <= WEIGHTS for link in links))
    chain = own_chain_kernels.own_chain if few else own_chain_kernels.tiled_chain  # they have the same bits
    given = x.numpy(), torch.cat(parts).numpy(), noise.numpy(), np.array(rows, np.int64), np.array(scales, np.float32)
    chain(*given, out.numpy())


@dataclass(frozen=True)
class Chain:
    """Chain of links: the outputs of one are the inputs of the next."""

    links: Sequence[Link]

    @property
    def outputs(self) -> int:
        return len(self.links[-1].weight)

    def by_torch(self, x: Tensor) -> Tensor:
        """Return the chain's outputs for ``x`` by torch's own functions."""
        for link in self.links:
            x = F.linear(x, link.weight, link.bias)
            if link.activation:
                x = ACTIVATIONS[link.activation - 1][1](x)
        return x

    def serves(self, x: Tensor, rows: MemberBatch) -> bool:
        """Return whether the loops compute the chain of rows ``x`` (n, .., I), of all sides or of one for all."""
        kind, inputs = self.links[0].weight.dtype, self.links[0].weight.shape[1]  # all evolved parameters have one
        if x.device.type != "cpu" or not x.dtype == kind == torch.float32 or x.dim() < 2 or not x.numel():
            return False
        sides, left = divmod(len(x), rows.directions * rows.examples)
        points = x.numel() // (x.shape[-1] * max(1, sides) * rows.directions)
        return not left and sides in (1, len(rows.scales)) and points in ROWS and x.shape[-1] == inputs

    def answers(self, x: Tensor, noise: Tensor, rows: MemberBatch) -> Tensor:
        """Return outputs (S D e, .., O) for rows ``x`` that the chain :meth:`serves`; ``noise`` (D, M) of the flat vector."""
        given = x.contiguous().view(len(x) // (rows.directions * rows.examples), rows.directions, -1, x.shape[-1])
        out = x.new_empty(len(rows.scales), *given.shape[1:3], self.outputs)
        outcomes(self.links, given, noise, rows.scales, out)
        return out.view(rows.count, *x.shape[1:-1], self.outputs)


def chains_of(module: nn.Module, places: Mapping[int, Place]) -> "list[Chain | nn.Module] | None":
    """Return what a Sequential calls in turn, with those parts joined to chains that the loops can compute; None without any.

    ``places``: by the identity of the parameter.
    """
    plain = nn.Sequential.forward, nn.Sequential.__iter__
    if not isinstance(module, nn.Sequential) or (type(module).forward, type(module).__iter__) != plain:
        return None
    if "forward" in vars(module) or any(HOOKS):
        return None
    steps: list[Chain | nn.Module] = []
    for part in module:
        link, last = _link(part, places), steps[-1] if steps else None
        if link is not None and isinstance(last, Chain) and last.outputs == link.weight.shape[1]:
            steps[-1] = Chain([*last.links, link])
        elif link is not None:
            steps.append(Chain([link]))
        elif isinstance(last, Chain) and not last.links[-1].activation and type(part) in KINDS and _is_plain(part):
            steps[-1] = Chain([*last.links[:-1], last.links[-1]._replace(activation=KINDS[type(part)])])
        else:
            steps.append(part)
    return steps if any(isinstance(step, Chain) for step in steps) else None


# functions that a user has registered for the calls of all modules
HOOKS = (modules._global_forward_hooks, modules._global_forward_pre_hooks)


def _is_plain(part: nn.Module) -> bool:
    """Return whether a call of ``part`` does nothing but what its class does, and GELU is the exact one."""
    changed = part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
    return not changed and getattr(part, "approximate", "none") == "none"


def _link(part: nn.Module, places: Mapping[int, Place]) -> Link | None:
    """Return ``part`` as a link without activation, None where it is no small linear layer of evolved parameters."""
    if type(part) is not nn.Linear or not _is_plain(part) or not 0 < part.weight.numel() <= WEIGHTS:
        return None
    weight, bias = places.get(id(part.weight)), None if part.bias is None else places.get(id(part.bias))
    return None if weight is None or (part.bias is not None and bias is None) else Link(part.weight, part.bias, weight, bias)
