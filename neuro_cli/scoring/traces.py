"""What one pass of a module leaves behind: state, writes to its input, draws from random generators."""

import torch
from torch import Tensor

from neuro_cli.scoring.base import ScoringSettings
from neuro_cli.scoring.isolation import Generators, difference

EXAMPLES = 4
OTHER = 1.5  # times the centre: another member, for whom a cache of weights is another one


def traces(settings: ScoringSettings, centre: Tensor) -> str | None:
    """Name what a forward pass of the module changes, None where it changes nothing that another pass would meet."""
    batch = settings.task.batch(0, 0, min(EXAMPLES, settings.batch_size)).to(settings.precision)
    before, fresh, used = Generators(), settings.candidate(), [settings.candidate() for _ in range(2)]
    for candidate, factor, passes in zip(used, (1.0, OTHER), (1, 2), strict=True):
        candidate.flat.copy_(centre * factor)
        for _ in range(passes):
            given = batch.clone()
            with torch.no_grad():
                settings.task.score(candidate.ready(), given)
            if any(tensor._version for tensor in given):
                return "changes its input in place"
    names = before.moved()
    if names:
        before.restore()
        return f"draws random numbers ({', '.join(names)})"
    # what is the same after passes of two members is a cache that any pass may meet
    if difference(fresh.module, used[0].module) is None:
        return None
    name = difference(used[0].module, used[1].module)
    return None if name is None else f"changes {name}"
