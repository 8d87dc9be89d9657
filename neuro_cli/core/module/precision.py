"""Precisions of members' passes, and the conversion of a module to one."""

import torch
from torch import Tensor, nn

from neuro_cli.core.checks import PRECISION_NAMES

PRECISIONS = {name: getattr(torch, name) for name in PRECISION_NAMES}
COMPUTES_IN = "neuro_computes_in"  # attribute of a module: the type of the inputs it is to get


def in_precision(module: nn.Module, precision: torch.dtype) -> nn.Module:
    """Convert a module's parameters and buffers of up to 32 bits to ``precision``, in place; returns it.

    Complex numbers stay complex (``Module.to`` would drop their imaginary parts), with parts of ``precision`` where that is
    float64. Buffers and frozen parameters in float64 stay: the module expects them so. Its attribute COMPUTES_IN says which type
    its inputs need, for parameters may have another one where they are converted as they are used.
    """

    def converted(tensor: Tensor) -> Tensor:
        if tensor.is_complex():
            return tensor.to(torch.complex128) if precision is torch.float64 else tensor
        wide = tensor.dtype is torch.float64 and not (isinstance(tensor, nn.Parameter) and tensor.requires_grad)
        return tensor.to(precision) if tensor.is_floating_point() and not wide else tensor

    vars(module)[COMPUTES_IN] = precision  # a scripted module lets no attribute be set
    return module._apply(converted)
