"""Candidates: modules with views of a flat vector as parameters, so that writing there makes another candidate."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_cli.core.kernels import gpu
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.module.copies import copied
from neuro_cli.core.module.precision import in_precision


class Candidate:
    """Copy of the module with views of ``flat`` (M,) as parameters, rounded to the evaluation's precision.

    With ``flat`` those of that vector itself, which passes must not write to; else a new one.
    ``change``: changes the copy's layers. ``shared``: another candidate, with a vector that this one views too.
    """

    def __init__(
        self,
        module: nn.Module,
        layout: ParameterLayout,
        precision: torch.dtype,
        device: torch.device,
        shared: "Candidate | None" = None,
        change: Callable[[nn.Module], None] | None = None,
        flat: Tensor | None = None,
    ) -> None:
        gpu.keep_float32(device, precision)
        self._precision = precision
        self.module = scoring_mode(in_precision(copied(module, precision), precision))
        if change is not None:
            change(self.module)
        mine = torch.empty(layout.size, device=device, dtype=torch.float32) if flat is None else flat
        self.flat: Tensor = shared.flat if shared else mine
        rounded = self.flat if precision == self.flat.dtype else torch.empty_like(self.flat, dtype=precision)
        self._rounded: Tensor = shared._rounded if shared else rounded
        self._apart: dict[str, Tensor] = layout.attach(self.module, self._rounded, shared._apart if shared else None)
        self._views = {place.name: place.view(self._rounded) for place in layout.places if place.name in self._apart}
        self._modes = [(part, part.training) for part in self.module.modules()]

    def ready(self) -> nn.Module:
        """Return the module with the parameters that ``flat`` holds now, in the mode that a fitness may have changed."""
        for part, training in self._modes:
            if part.training is not training:
                part.training = training
        if self._rounded is not self.flat:
            self._rounded.copy_(self.flat)
        for name, view in self._views.items():
            self._apart[name].copy_(view)
        return self.module


# raised by calls that do not take a tensor of some kind, and by Python code that reads its numbers
UNSUPPORTED = (RuntimeError, AttributeError, TypeError)
LONGEST = 160  # letters of an error that are quoted


def brief(error: Exception) -> str:
    """Return the first sentence of an error as one short line; torch appends details of its dispatcher."""
    first = " ".join(str(error).strip().partition("\n")[0].split()).partition(". ")[0]
    return first if len(first) <= LONGEST else first[: LONGEST - 2] + ".."


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
