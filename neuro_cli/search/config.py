"""Keys of a search and of the training of its candidates, each checked once. Imports no torch."""

from dataclasses import dataclass
from typing import Any, Self

from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.factory.instantiate import value_of

NONE, BEST, ALL = "none", "best", "all"
KEEP = (NONE, BEST, ALL)  # trained weights that are kept


@dataclass(frozen=True)
class TrainingConfig:
    """Training of a candidate. ``plain``: its section of ``conf/search.yaml``, with the optimizer and the schedule."""

    plain: dict[str, Any]
    epochs: int
    batch_size: int
    validation: float
    device: str
    threads: int
    slices: int

    @classmethod
    def of(cls, config: dict[str, Any]) -> Self:
        """Check the keys of ``training`` in a search's config or a candidate's payload. Raises UserError."""
        plain = value_of(config, "training")

        def at_least_one(name: str, high: int | None = None) -> int:
            return integer(f"training.{name}", value_of(config, f"training.{name}"), 1, high)

        batch_size = at_least_one("batch_size")
        return cls(
            plain=plain,
            epochs=at_least_one("epochs"),
            batch_size=batch_size,
            validation=number("training.validation", value_of(config, "training.validation"), above=0.0, high=0.9),
            device=value_of(config, "training.device"),
            threads=at_least_one("threads", 1024),
            slices=integer("training.slices", plain.get("slices", 1), 1, batch_size),  # earlier versions had none
        )


@dataclass(frozen=True)
class SearchConfig:
    """Root keys of ``conf/search.yaml``; ``plain``: the whole resolved config, as a run folder keeps it.

    ``keep``: checkpoints that are kept. ``time_limit``: seconds until a clean stop, None: no limit.
    """

    plain: dict[str, Any]
    seed: int
    trainings: int
    max_layers: int
    best: int
    keep: int
    keep_weights: str
    time_limit: float | None
    training: TrainingConfig

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Check the keys. Raises UserError for one that is missing, of another type, or out of its range."""

        def bounded(key: str, low: int, high: int | None = None) -> int:
            return integer(key, value_of(plain, key), low, high)

        limit = value_of(plain, "time_limit")
        return cls(
            plain=plain,
            seed=bounded("seed", 0, 2**63 - 1),
            trainings=bounded("trainings", 1, 10**6),
            max_layers=bounded("max_layers", 1, 100),
            best=bounded("best", 1),
            keep=bounded("checkpoint.keep", 1),
            keep_weights=one_of("keep_weights", plain.get("keep_weights", NONE), KEEP),  # earlier versions kept none
            time_limit=None if limit is None else number("time_limit", limit, above=0.0),
            training=TrainingConfig.of(plain),
        )
