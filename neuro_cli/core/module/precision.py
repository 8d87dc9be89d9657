"""Precisions of members' passes, and the conversion of a module to one."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.checks import PRECISION_NAMES

PRECISIONS = {name: getattr(torch, name) for name in PRECISION_NAMES}
COMPUTES_IN = "neuro_computes_in"  # attribute of a module: the type of the inputs it is to get
LATE = "neuro_converted_late"  # attribute of a parameter that its layers convert where they use it
TABLE = 2**22  # numbers of a table that is worth it
BLOCK = 2**20  # numbers that are converted at once


def in_precision(module: nn.Module, precision: torch.dtype) -> nn.Module:
    """Convert a module's parameters and buffers of up to 32 bits to ``precision``, in place; returns it.

    Complex numbers stay complex (``Module.to`` would drop their imaginary parts), with parts of ``precision`` where that is
    float64. Buffers and frozen parameters in float64 stay: the module expects them so. Its attribute COMPUTES_IN says which type
    its inputs need, for parameters may have another one where they are converted as they are used.
    """

    def converted(tensor: Tensor) -> Tensor:
        if LATE in vars(tensor):
            return tensor
        if tensor.is_complex():
            return tensor.to(torch.complex128) if precision is torch.float64 else tensor
        wide = tensor.dtype is torch.float64 and not (isinstance(tensor, nn.Parameter) and tensor.requires_grad)
        return tensor.to(precision) if tensor.is_floating_point() and not wide else tensor

    vars(module)[COMPUTES_IN] = precision  # a scripted module lets no attribute be set
    return module._apply(converted)


def convert_tables_late(module: nn.Module, precision: torch.dtype) -> nn.Module:
    """Let large frozen tables stay as they are for :func:`in_precision`, in place; returns the module.

    Tables are in half precision. Embeddings and heads compute in ``precision``: a copy of a vocabulary's table would take more
    memory than the layers. Tables that another kind of layer has too are converted like other parameters.
    """
    owners: dict[nn.Parameter, list[nn.Module]] = defaultdict(list)
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            if parameter.numel() >= TABLE and not parameter.requires_grad and parameter.dtype in (torch.bfloat16, torch.float16):
                owners[parameter].append(part)
    for parameter, parts in owners.items():
        if all(_is_late(part, parameter) for part in parts):
            setattr(parameter, LATE, precision)
            for part in parts:
                late = partial(_blocks, part) if type(part) is nn.Linear else partial(_rows, part.forward, precision)
                vars(part)["forward"] = late
    return module


def _is_late(part: nn.Module, table: nn.Parameter) -> bool:
    plain = "forward" not in vars(part) and getattr(part, "weight", None) is table
    return plain and (type(part) is nn.Linear or isinstance(part, nn.Embedding))


def _rows(forward: Callable[..., Tensor], precision: torch.dtype, *args: Any, **kwargs: Any) -> Tensor:
    """Return an embedding's rows in ``precision``."""
    return forward(*args, **kwargs).to(precision)


def _blocks(part: nn.Linear, input: Tensor) -> Tensor:
    """Return a linear layer in the type of ``input``, some rows of its weight at a time."""
    rows = part.weight.split(max(1, BLOCK // part.in_features))
    made = torch.cat([F.linear(input, each.to(input.dtype)) for each in rows], -1)
    return made if part.bias is None else made + part.bias
