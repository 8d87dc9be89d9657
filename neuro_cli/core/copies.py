"""Copies of the user's module. All of them are made here, so that what cannot be copied is one error before anything ran."""

import copy
from typing import Any

from torch import Tensor, nn

from neuro_cli.core.errors import UserError


def copied(module: nn.Module) -> nn.Module:
    """Copy a module with all that it holds. Raises UserError for what Python cannot copy, such as locks and open files."""
    # ``nn.utils.weight_norm`` and ``prune`` keep a computed tensor as an attribute, which deepcopy refuses
    memo: dict[int, Any] = {}
    for part in module.modules():
        for value in (*vars(part).values(), *part._buffers.values()):
            if isinstance(value, Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:  # each kind of object raises its own
        reason = " ".join(str(error).split())
        raise UserError(
            f"model: {type(module).__name__} cannot be copied, as every member needs a copy: {reason}; "
            "keep what it names outside of the module, or give its class a __deepcopy__"
        ) from error


def own_memory(module: nn.Module) -> None:
    """Give expanded parameters and buffers (a stride of 0) memory for each number, as writing to them needs."""
    for tensor in (*module.parameters(), *module.buffers()):
        if any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            tensor.data = tensor.data.contiguous()
