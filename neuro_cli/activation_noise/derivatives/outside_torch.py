"""Values that leave torch in a pass and come back as new tensors: through numpy, a C library, another runtime, plain Python.

torch shows no call that leads from the one to the other, and does not show every new tensor either (``torch.from_numpy``). So
once a pass has read numbers of the examples, a new tensor with rows for the examples is taken to depend on them.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.scoring.passes.example_marks import DATA, tensors

READS: frozenset[Callable[..., Any]] = frozenset((
    Tensor.numpy, Tensor.__array__, Tensor.tolist, Tensor.item, Tensor.__float__, Tensor.__int__, Tensor.__bool__,
    Tensor.__index__, Tensor.data_ptr, Tensor.untyped_storage, Tensor.__dlpack__,
))  # fmt: skip
# new tensors, which Python or a C library fills
NEW: frozenset[Callable[..., Any]] = frozenset((
    torch.tensor, torch.as_tensor, torch.asarray, torch.empty, torch.zeros, torch.full, torch.empty_like, torch.zeros_like,
    Tensor.new_tensor, Tensor.new_empty, Tensor.new_zeros,
))  # fmt: skip
FOREIGN = "_neuro_foreign"  # attribute of new tensors that depend on the examples
SHOWN = "_neuro_shown"  # attribute of other tensors that calls of the pass gave


class ForeignValues:
    """Search of a pass of ``module`` over so many ``examples`` for tensors that came back."""

    def __init__(self, module: nn.Module, examples: int) -> None:
        self._module, self._examples, self._known = module, examples, set[int]()
        self._read = False

    def see_read(self, func: Callable[..., Any]) -> None:
        """Note a call with data of the examples."""
        if func in READS and not self._read:
            self._read = True
            held = (value for part in self._module.modules() for value in vars(part).values())
            self._known = {id(value) for value in (*self._module.parameters(), *self._module.buffers(), *tensors(held))}

    def see_write(self, target: Tensor, of_data: bool) -> None:
        """Note a call that writes to a tensor, a value ``of_data`` or a number that may be read from data."""
        if hasattr(target, DATA) or target.requires_grad or id(target) in self._known:
            return
        if of_data:
            setattr(target, DATA, True)
        elif self._read:
            self._mark(target)

    def find(self, given: Iterable[Any]) -> bool:
        """Return whether arguments of a call came back from outside; these are marked as data of the examples."""
        if not self._read:
            return False
        for tensor in tensors(given):
            if not (hasattr(tensor, DATA) or hasattr(tensor, SHOWN) or tensor.requires_grad or id(tensor) in self._known):
                self._mark(tensor)
        return any(hasattr(tensor, FOREIGN) for tensor in tensors(given))

    def see_result(self, func: Callable[..., Any], result: Any) -> bool:
        """Note the ``result`` of a call without data; return whether it is a new tensor that will depend on the examples."""
        for tensor in tensors([result]):
            if self._read and func in NEW and self._mark(tensor):
                return True
            setattr(tensor, SHOWN, True)
        return False

    def _mark(self, tensor: Tensor) -> bool:
        rows = tensor.dim() > 0 and len(tensor) % self._examples == 0 and len(tensor) > 0
        if rows:
            setattr(tensor, DATA, True)
            setattr(tensor, FOREIGN, True)
        return rows
