"""Candidates: modules with views of a flat vector as parameters, so that writing there makes another candidate."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_cli.core.copies import copied, in_precision
from neuro_cli.core.kernels import gpu
from neuro_cli.core.layout import ParameterLayout


class Candidate:
    """Copy of the module with views of ``flat`` (M,) as parameters, rounded to the evaluation's precision.

    With ``flat`` those of that vector itself, which passes must not write to; else a new one.
    ``blocked``: on activations in blocked layout, with a function that warns. ``change``: changes the copy's layers. ``shared``:
    another candidate, with a vector that this one views too.
    """

    def __init__(
        self,
        module: nn.Module,
        layout: ParameterLayout,
        precision: torch.dtype,
        device: torch.device,
        blocked: Callable[[str], None] | None = None,
        shared: "Candidate | None" = None,
        change: Callable[[nn.Module], None] | None = None,
        flat: Tensor | None = None,
    ) -> None:
        gpu.keep_float32(device, precision)
        self._precision = precision
        inner = scoring_mode(in_precision(copied(module, precision), precision))
        if change is not None:
            change(inner)
        mine = torch.empty(layout.size, device=device, dtype=torch.float32) if flat is None else flat
        self.flat: Tensor = shared.flat if shared else mine
        rounded = self.flat if precision == self.flat.dtype else torch.empty_like(self.flat, dtype=precision)
        self._rounded: Tensor = shared._rounded if shared else rounded
        layout.attach(inner, self._rounded)
        self.module = Blocked(inner, blocked) if blocked else inner

    def ready(self) -> nn.Module:
        """Return the module with the parameters that ``flat`` holds now."""
        if self._rounded is not self.flat:
            self._rounded.copy_(self.flat)
        return self.module


# raised by layers without a blocked kernel, and by Python code that reads a tensor's numbers
UNSUPPORTED = (RuntimeError, AttributeError, TypeError)
LONGEST = 160  # letters of an error that are quoted


def brief(error: Exception) -> str:
    """Return the first sentence of an error, in one short line: torch's continue with all that its dispatcher knows."""
    first = " ".join(str(error).strip().partition("\n")[0].split()).partition(". ")[0]
    return first if len(first) <= LONGEST else first[: LONGEST - 2] + ".."


class Blocked(nn.Module):
    """Module on activations in oneDNN's own blocked layout: no reordering between layers of a CPU."""

    def __init__(self, inner: nn.Module, warn: Callable[[str], None]) -> None:
        super().__init__()
        self.inner, self._warn = inner, warn

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)  # a fitness may call methods of the user's module

    def blocked(self, inputs: Tensor) -> Tensor:
        """Return the outputs. Raises one of UNSUPPORTED where a layer takes no blocked activations."""
        outputs: Tensor = self.inner(inputs.to_mkldnn())
        return outputs.to_dense()

    def forward(self, inputs: Tensor) -> Tensor:
        try:
            return self.blocked(inputs)
        except UNSUPPORTED as error:
            # a branch that the trial at the start did not take; if the module itself fails, it fails again below.
            # Tried again for every member: a score must not depend on the member that this thread scored before.
            self._warn(f"{type(self.inner).__name__}: a layer takes no blocked activations, it is done without: {brief(error)}")
            plain: Tensor = self.inner(inputs)
            return plain


def scoring_mode(module: nn.Module) -> nn.Module:
    """Set batch norm to the statistics of the batch and switch dropout off; returns the module.

    Running statistics stay as they are: members update none.
    """
    norms = moving_norms(module)
    module.train()  # where modules drop what they computed from weights in evaluation mode
    module.eval()  # dropout too
    for part in norms:
        part.train()
        part.track_running_stats = False
    return module


def moving_norms(module: nn.Module) -> list[_BatchNorm]:
    """Batch norms that normalise by the batch: not those in evaluation mode or with frozen parameters, which stay as given."""
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm) and part.training]
    return [part for part in norms if all(parameter.requires_grad for parameter in part.parameters())]
