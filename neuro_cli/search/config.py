"""Keys of a search and of the training of its candidates, each checked once; and those that its numbers depend on."""

from dataclasses import dataclass
from typing import Any, Self

from neuro_cli.core.checks import integer, number
from neuro_cli.run_folder.identity import flatten
from neuro_cli.runner.config import bounded, choice, key, or_none, positive, section

# keys that determine the numbers of a search, apart from where its data lie
IDENTITY = ("seed", "max_layers", "layers", "task", "model", "strategy", "training")
FREE = ("task.root", "task.download", "task.evaluation_batch")
NONE, BEST, ALL = "none", "best", "all"  # choices of keep_weights


@dataclass(frozen=True)
class TrainingConfig:
    """Training of a candidate: the section ``training`` of ``conf/search.yaml`` and of a candidate's payload."""

    epochs: int = key(bounded(1))
    batch_size: int = key(bounded(1))
    validation: float = key(lambda key, value: number(key, value, above=0.0, high=0.9))
    device: str = key()
    threads: int = key(bounded(1, 1024))
    optimizer: dict[str, Any] = key()
    lr_schedule: dict[str, Any] = key()
    slices: int = key(bounded(1), default=1)  # earlier versions had none

    def __post_init__(self) -> None:
        integer("training.slices", self.slices, 1, self.batch_size)


@dataclass(frozen=True)
class KeepConfig:
    """Checkpoints of a search: how many of the last ones stay."""

    keep: int = key(bounded(1))


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Root keys of ``conf/search.yaml``; ``plain``: the resolved config, as in a run folder.

    ``time_limit``: seconds until a clean stop, None: no limit.
    """

    plain: dict[str, Any]
    seed: int = key(bounded(0, 2**63 - 1))
    trainings: int = key(bounded(1, 10**6))
    max_layers: int = key(bounded(1, 100))
    best: int = key(bounded(1))
    checkpoint: KeepConfig
    layers: list[str] | None = key()
    keep_weights: str = key(choice(NONE, BEST, ALL), default=NONE)  # value for searches of earlier versions
    time_limit: float | None = key(or_none(positive))
    training: TrainingConfig

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Check the keys of a search's config. Raises UserError for one that is missing, of another type, or out of its range."""
        return section(cls, plain, plain=plain)


def identity_of(search: SearchConfig) -> dict[str, Any]:
    """Return the dotted config keys and values that the search's numbers depend on."""
    leaves = flatten({key: search.plain[key] for key in IDENTITY})
    # the search chooses modules: the one in the config is never used
    return {key: value for key, value in leaves.items() if key not in FREE and key != "model.module"}
