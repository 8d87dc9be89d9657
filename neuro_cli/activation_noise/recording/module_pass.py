"""A pass of a module over a batch, which begins in the state in which the pass before it began."""

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from torch import Tensor, nn

from neuro_cli.scoring.base import PassSettings
from neuro_cli.scoring.passes.restore import kept
from neuro_cli.task.base import Batch


class ModulePass(NamedTuple):
    """Pass of ``module`` over ``batch``."""

    module: nn.Module
    settings: PassSettings
    batch: Batch

    def state(self) -> AbstractContextManager[None]:
        """Return a context of one pass, after which the module has its state from before; outside of torch's function modes."""
        return kept(self.module) if self.settings.restores else nullcontext()

    def rewards(self) -> Tensor:
        """Return the scores of ``Task.rewards``."""
        return self.settings.task.rewards(self.module, self.batch)
