"""Functions of torch that the mapped pass does in a way of its own, for all members at once.

A handler gives NotImplemented where it does not serve: then the parameters are replaced by their members' values.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

from neuro_cli.core.rows import MemberBatch
from neuro_cli.core.rows import attention as attention_of_rows
from neuro_cli.core.rows import layer_norm as layer_norm_of_rows
from neuro_cli.scoring.passes import recurrent
from neuro_cli.scoring.passes.member_dimension import HiddenMembers
from neuro_cli.scoring.passes.operators import ConvolutionOperator, Unsupported, geometry_of, images_of, normalized, numbers
from neuro_cli.scoring.passes.parameter_uses import Use
from neuro_cli.scoring.passes.products import addmm, einsum, linear, linear_later, matmul, reversed_matmul


def convolution(
    members: HiddenMembers, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    use = members.uses.get(weight)
    if use is None or not use.whole or use.place.groups != groups:
        return NotImplemented
    return _convolved(members, use, ConvolutionOperator(geometry_of(weight, stride, padding, dilation, groups)), input, bias)


def transposed_convolution(
    members: HiddenMembers, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    use = members.uses.get(weight)
    if use is None or not use.whole or use.place.groups != groups:
        return NotImplemented
    more = numbers(output_padding, weight.dim() - 2)
    operator = ConvolutionOperator(geometry_of(weight, stride, padding, dilation, groups), (0, *more) if len(more) == 1 else more)
    return _convolved(members, use, operator, input, bias)


def _convolved(members: HiddenMembers, use: Use, operator: ConvolutionOperator, input: Tensor, bias: Tensor | None) -> Tensor:
    x, dims = members.show(members.value(input, "convolution")), use.tensor.dim()
    single = x.dim() == dims  # an example without a batch
    images, shift = images_of((x.unsqueeze(1) if single else x).flatten(0, 1)), members.uses.get(bias)
    shift = shift if shift is not None and shift.whole else None
    y = members.layer(use, images, shift, operator)
    if y is None:
        shift, y = None, members.perturbed(use, operator, images, operator(images, use.tensor))
    y = y.squeeze(2) if dims == 3 else y
    result = members.hide(y if single else y.unflatten(0, (len(x), -1)))
    if bias is None or shift is not None:
        return result
    return result.add_(members.value(bias, "convolution").view(-1, *[1] * (dims - 2)))


def embedding(members: HiddenMembers, weight: Tensor, indices: Tensor, *_: Any, **__: Any) -> Any:
    use = members.uses.get(weight)
    if use is None or not use.whole:
        return NotImplemented
    tokens = members.show(indices)
    lines = tokens.reshape(len(tokens), -1).long()  # (B, k)
    with members.noise.of(MemberBatch(members.rows.scales, members.rows.directions, 1)):
        result = members.noise.add_lines(use.place, lines, weight.index_select(0, lines.flatten()).unflatten(0, lines.shape))
    return members.hide(result.reshape(*tokens.shape, *weight.shape[1:]))


def embedding_bag(
    members: HiddenMembers, input: Tensor, weight: Tensor, offsets: Any = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Any:  # fmt: skip
    use = members.uses.get(weight)
    if use is None:
        return NotImplemented
    rows = NotImplemented
    if input.dim() == 2 and offsets is None and max_norm is None and padding_idx is None:
        rows = embedding(members, weight, input)
    if rows is NotImplemented:
        raise Unsupported(f"an embedding bag of {use.place.name} with offsets, max_norm or padding_idx")
    if per_sample_weights is not None:
        rows = rows * members.value(per_sample_weights, "embedding_bag").unsqueeze(-1)
    return {"max": rows.amax, "mean": rows.mean, "sum": rows.sum}[mode](1)


def batch_norm(
    members: HiddenMembers, input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Batch norm with the statistics of each member's own examples; the running ones stay as they are."""
    input = members.value(input, "batch_norm")
    if training:
        if input.numel() == input.shape[1]:
            raise Unsupported("batch norm of a single value for each channel")
        result = normalized(input, [0, *range(2, input.dim())], eps)
    else:
        result = F.batch_norm(input, running_mean, running_var, None, None, False, 0.0, eps)
    shape = (-1, *[1] * (input.dim() - 2))
    if weight is not None:
        result = result * members.value(weight, "batch_norm").view(shape)
    return result if bias is None else result + members.value(bias, "batch_norm").view(shape)


def layer_norm(
    members: HiddenMembers, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Layer norm of all members' examples at once: torch's map has a pass over memory for each of weight and bias."""
    if weight is None or bias is None:
        return NotImplemented
    factors, shifts = (members.show(members.value(part, "layer_norm")).flatten(1) for part in (weight, bias))
    x = members.show(members.value(input, "layer_norm"))
    return members.hide(layer_norm_of_rows(x.flatten(x.dim() - len(normalized_shape)), factors, shifts, eps).view(x.shape))


def attention(
    members: HiddenMembers, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *rest: Any, **named: Any
) -> Any:
    """Attention of all members' examples at once: torch's map would do it member by member."""
    query, key, value, attn_mask = (members.value(x, "attention") for x in (query, key, value, attn_mask))
    dims = query.dim()
    folded = [members.show(x) for x in (query, key, value)]
    examples = folded[0].shape[:-3]
    if dims > 3:
        if any(x.shape[:-3] != examples for x in folded):
            return NotImplemented
        folded = [x.flatten(0, dims - 3) for x in folded]
    mask = attn_mask
    if mask is not None:
        # (members, examples.., heads, L, S), each of them or one for all
        shape = mask.shape[-2:] if dims == 2 else (*[1] * (dims - mask.dim()), *mask.shape)
        mask = members.show(mask.reshape(shape))
        if dims > 3:
            mask = mask.expand(*examples, *mask.shape[-3:]).flatten(0, dims - 3)
    result = attention_of_rows(folded[0], folded[1], folded[2], mask, *rest, **named)
    return members.hide(result.unflatten(0, examples) if dims > 3 else result)


def blank(members: HiddenMembers, *args: Any, function: Callable[..., Tensor], **kwargs: Any) -> Tensor:
    """Return a new tensor of every member, as the module may write the members' values into it."""
    result = function(*args, **kwargs)
    return members.hide(result.repeat(members.count, *[1] * result.dim()))


def _any_linear(members: HiddenMembers, input: Tensor, weight: Any, bias: Any) -> Tensor:
    result = linear(members, input, weight, bias)
    if result is NotImplemented:
        result = F.linear(input, members.value(weight, "linear"), members.value(bias, "linear"))
    return result


def _recurrent(members: HiddenMembers, *args: Any, whole: Callable[..., Any], cell: recurrent.Cell, **kwargs: Any) -> Any:
    # input and state; of the weights the linear layers take the members' values
    given = [tree_map(lambda part: members.value(part, "recurrent"), part) for part in args[:2]]
    return whole(partial(_any_linear, members), cell, *given, *args[2:], **kwargs)


HANDLERS: dict[Any, Callable[..., Any]] = {
    F.linear: linear_later,
    torch.einsum: einsum,
    torch.addmm: addmm,
    Tensor.addmm: addmm,
    Tensor.__rmatmul__: reversed_matmul,
    torch.embedding: embedding,
    F.embedding_bag: embedding_bag,
    F.batch_norm: batch_norm,
    F.layer_norm: layer_norm,
    F.scaled_dot_product_attention: attention,
    **dict.fromkeys((torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__), matmul),
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d), convolution),
    **dict.fromkeys((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), transposed_convolution),
    **{function: partial(blank, function=function) for function in (torch.zeros, torch.empty, torch.ones, torch.full)},
    **{func: partial(_recurrent, whole=whole, cell=cell) for func, (whole, cell) in recurrent.FUNCTIONS.items()},
}  # fmt: skip
