"""What passes of a module leave behind: state, writes to their input, draws from random generators."""

from typing import NamedTuple

import torch
from torch import Tensor

from neuro_cli.core.seeds import GENERATORS
from neuro_cli.scoring.base import PassSettings
from neuro_cli.scoring.isolation import Generators, difference

EXAMPLES = 4
OTHER = 1.5  # times the centre: another member, whose cache of weights is another one


class Traces(NamedTuple):
    """``draws``: names of random generators; ``state``: name of what moved, unless it is the same for all members."""

    draws: list[str]
    writes: bool
    state: str | None

    @property
    def reason(self) -> str | None:
        """The first trace in words, None where there is none."""
        if self.draws:
            return f"draws random numbers ({', '.join(self.draws)})"
        return "changes its input in place" if self.writes else self.state and f"changes {self.state}"


def traces(settings: PassSettings, centre: Tensor) -> Traces:
    """Find the traces of a few forward passes of two members."""
    batch, fresh, writes = settings.few(EXAMPLES), settings.candidate().module, False
    used = [settings.module_at(centre * factor) for factor in (1.0, OTHER)]
    with GENERATORS:
        before = Generators()
        for module, passes in zip(used, (1, 2), strict=True):
            for _ in range(passes):
                given = batch.clone()
                with torch.no_grad():
                    settings.task.score(module, given)
                writes |= any(tensor._version for tensor in given)
        draws = before.moved()
        before.restore()
    moved = difference(fresh, used[0]) is not None
    return Traces(draws, writes, difference(*used) if moved else None)
