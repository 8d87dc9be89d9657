"""Linear layers of a pass that wait until the module uses their outcome: those in a row are then computed together."""

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.chain import Link
from neuro_cli.core.postponed import Postponed, activation_of
from neuro_cli.sampler.base import Perturbation
from neuro_cli.scoring.passes.number_reads import METADATA

Rows = tuple[Tensor, Sequence[int]]  # a layer's inputs (S or 1, D, m, I), and dimensions of its outcome before the last one


class Later:
    """Layers of one pass that wait.

    ``shown``: makes what the module gets of an outcome; ``watched``: as of :class:`neuro_cli.core.postponed.Postponed`.
    """

    def __init__(self, noise: Perturbation, shown: Callable[[Tensor], Tensor] = lambda made: made) -> None:
        self._noise, self._shown, self.watched = noise, shown, False
        self.waits: Postponed | None = None  # layers and activations that are not computed yet

    def layer(self, layer: Link, input: Tensor, rows: Callable[[], Rows]) -> Tensor | None:
        """Return what the module gets of a layer on ``input`` with these ``rows``, None where it has to be computed at once."""
        if self.waits is None or not self.waits.ends_in(input) or not self.waits.takes(layer.weight):
            self.finish()
            x, lead = rows()
            self.waits = self._noise.postponed(x, layer.weight, lead, self.watched)
        return None if self.waits is None else self.waits.seen(self._shown(self.waits.layer(layer)))

    def after(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return what an activation makes of the last outcome. Before any other call of a function all is computed.

        NotImplemented then, for a linear layer on that outcome, and for calls that read no number.
        """
        waits = self.waits
        if waits is None or func in METADATA:
            return NotImplemented
        if args and waits.ends_in(args[0]):
            if func is F.linear:
                return NotImplemented
            number = activation_of(func, args, kwargs)
            if number and waits.ends_in_layer:
                return waits.seen(self._shown(waits.activation(number)))
            if func is F.dropout and (kwargs.get("p") == 0 or kwargs.get("training") is False):
                return args[0]
        self.finish()
        return NotImplemented

    def forget(self) -> None:
        """Forget layers of a pass that raised an error."""
        self.waits = None

    def finish(self) -> None:
        """Compute what waits."""
        waits, self.waits = self.waits, None
        if waits is not None:
            waits.finish()
