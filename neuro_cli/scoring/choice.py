"""The choice of a run's scorer: by the task's word, and for examples by model, sampler and device. The log names it."""

import logging
from collections.abc import Callable

from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from neuro_cli.core.checks import one_of
from neuro_cli.scoring.base import Scorer, ScoringSettings
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.candidate import UNSUPPORTED
from neuro_cli.scoring.episodes import EpisodeScorer
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.operators import Unsupported

log = logging.getLogger(__name__)

# beyond this many examples a member, its own forward pass costs less than the second layer that reused noise needs
FEW_EXAMPLES = 8


def example_scorer(settings: ScoringSettings, centre: Tensor) -> Scorer:
    """The faster of two: many members in one forward pass where the module can be scored so, else one by one.

    Many at once: on a GPU, and on a CPU for samplers that reuse noise when a member has few examples. A function of the
    settings, never of a clock: all ranks must choose alike.
    """
    if any(isinstance(part, _DropoutNd) for part in settings.module.modules()):
        log.info("the model's dropout is off while candidates are scored")
    few = settings.sampler.reuses_noise and settings.examples <= FEW_EXAMPLES
    if settings.device.type == "cpu" and not few:
        return MemberScorer(settings, centre)
    try:
        return BatchedScorer(settings, centre)
    except (Unsupported, *UNSUPPORTED) as error:
        log.warning("members are scored one by one, slower: %s", " ".join(str(error).split())[:200])
        return MemberScorer(settings, centre)


# by what a task says of itself in ``Task.scored_by``: it lies below this package and cannot name a class of it
SCORERS: dict[str, Callable[[ScoringSettings, Tensor], Scorer]] = {"examples": example_scorer, "episodes": EpisodeScorer}


def scorer_of(settings: ScoringSettings, centre: Tensor) -> Scorer:
    """The scorer of a run. Raises ConfigError for a task of an unknown kind."""
    task = settings.task
    return SCORERS[one_of(f"{type(task).__name__}.scored_by", task.scored_by, tuple(SCORERS))](settings, centre)
