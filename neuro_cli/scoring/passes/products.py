"""Products of activations with an evolved matrix, or with a piece of one, for all members at once.

A function gives NotImplemented where it does not serve: then the parameters are replaced by their members' values.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from neuro_cli.scoring.passes.member_dimension import HiddenMembers
from neuro_cli.scoring.passes.operators import LinearOperator
from neuro_cli.scoring.passes.parameter_uses import Piece, Use


def linear(members: HiddenMembers, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    use = members.uses.get(weight)
    piece = None if use is None else use.piece()
    if use is None or piece is None or input.shape[-1] != weight.shape[1]:
        return NotImplemented
    input, shift = members.value(input, "linear"), members.uses.get(bias)
    if shift is None or not shift.whole or weight.numel() < use.parameter.numel():
        result = members.hide(_linear(members, use, piece, members.show(input), None))
        return result if bias is None else result.add_(members.value(bias, "linear"))
    return members.hide(_linear(members, use, piece, members.show(input), shift))


def linear_later(members: HiddenMembers, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Linear layer that is computed when its outcome is used, where it can be."""
    use, shift, made = members.uses.get(weight), members.uses.get(bias), None
    evolved = bias is None or (shift is not None and shift.whole)
    fits = use is not None and use.whole and use.piece() is not None and input.shape[-1] == weight.shape[1]
    if use is not None and fits and evolved and members.uses.get(input) is None:
        made = members.layer_later(use, input, shift)
    if made is None:
        members.later.finish()
        made = linear(members, input, weight, bias)
    return made


def _linear(members: HiddenMembers, use: Use, piece: Piece, x: Tensor, bias: Use | None) -> Tensor:
    """Product of x (B, .., inputs) and a piece of a weight, and a bias."""
    points = x.reshape(len(x), -1, x.shape[-1]).contiguous()
    if use.whole:
        result = members.layer(use, points, bias, LinearOperator())
        if result is not None:
            return result.view(*x.shape[:-1], result.shape[-1])
    y = F.linear(points, use.tensor, None if bias is None else bias.tensor)
    operator = LinearOperator(piece.transposed)
    rows, inner = use.parameter.shape[:2]
    read, written = ((piece.first, piece.last, inner), (piece.low, piece.high, rows))
    if piece.transposed:
        read, written = written, read
    if read[1] - read[0] < read[2]:
        points = F.pad(points, (read[0], read[2] - read[1]))
    if written[1] - written[0] < written[2]:
        step = members.perturbed(use, operator, points, y.new_zeros(*y.shape[:2], written[2]))
        y = y + step[..., written[0] : written[1]]
    else:
        y = members.perturbed(use, operator, points, y, bias)
    return y.view(*x.shape[:-1], y.shape[-1])


def matmul(members: HiddenMembers, a: Tensor, b: Tensor) -> Any:
    left, right = members.uses.get(a), members.uses.get(b)
    if (left is None) == (right is None):
        return NotImplemented
    if right is not None:
        return NotImplemented if b.dim() != 2 or not a.dim() else linear(members, a, _view(members, right, b.t()))
    if a.dim() != 2 or not b.dim():
        return NotImplemented
    result = linear(members, b.mT if b.dim() > 1 else b, a)
    return result if result is NotImplemented or b.dim() == 1 else result.mT


def reversed_matmul(members: HiddenMembers, a: Tensor, b: Tensor) -> Any:
    return matmul(members, b, a)


def addmm(members: HiddenMembers, input: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    result = matmul(members, a, b) if beta == 1 and alpha == 1 else NotImplemented
    return result if result is NotImplemented else result + members.value(input, "addmm")


def _view(members: HiddenMembers, use: Use | None, view: Tensor) -> Tensor:
    assert use is not None
    members.uses.follow(view, [use])
    return view


def einsum(members: HiddenMembers, equation: Any, *operands: Any) -> Any:
    """Sum over one index of a matrix: a linear layer of another order."""
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    found = [members.uses.get(operand) for operand in given] if isinstance(equation, str) else []
    if len(found) != 2 or (found[0] is None) == (found[1] is None) or "->" not in equation:
        return NotImplemented
    sides, result = equation.replace(" ", "").split("->")
    names, which = sides.split(","), int(found[0] is None)
    weight, x, use = names[which], names[1 - which], found[which]
    summed = "".join(set(weight) & set(x) - set(result))
    kept = weight.replace(summed, "")
    if len(weight) != 2 or len(summed) != 1 or kept in x or "." in equation or sorted(x.replace(summed, kept)) != sorted(result):
        return NotImplemented
    if len(set(x)) < len(x) or kept not in result:
        return NotImplemented
    matrix = given[which] if weight[1] == summed else _view(members, use, given[which].t())
    outcome = linear(members, given[1 - which].movedim(x.index(summed), -1), matrix)
    order = x.replace(summed, "") + kept
    return outcome if outcome is NotImplemented else outcome.permute([order.index(name) for name in result])
