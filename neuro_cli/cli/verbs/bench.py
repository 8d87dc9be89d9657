"""``neuro bench``."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from neuro_cli.cli.command import hydra_verb
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError


def _bench(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.bench.bench import bench

    bench(config, run)
    return 0


# what each kind of bench.KINDS measures
KINDS = {
    "layer": "a perturbation for each example: a layer's forward pass by sampler, against an unperturbed one",
    "correlation": "cosine of each sampler's gradient estimate and the gradient by back-propagation",
    "diversity": "the published measure of a sampler's diversity",
    "ensemble": "an iteration of an ensemble by method, against one graph",
    "ensemble_bytes": "bytes that an ensemble's ranks exchange, against data parallelism",
    "reinforcement": "minutes to a mean return by method; hours",
    "records": "seconds to an accuracy, a setting against the one before it; hours",
    "growth": "seconds and memory of a generation against parameters, population and ranks",
    "search": "best candidates of search strategies against random search",
}


def bench_help() -> str:
    """Return the help of ``neuro bench``: a line for each kind of measurement."""
    kinds = "\n".join(f"  {name:15s} {text}" for name, text in KINDS.items())
    return (
        f"usage: neuro bench KIND [key=value ...]\n\nkinds\n{kinds}\n\nneuro bench KIND --help lists all keys and their defaults."
    )


def bench_verb(arguments: list[str]) -> int:
    """Measure. ``neuro bench WORD`` means ``what=WORD``, and ``neuro bench --help`` lists the kinds."""
    if arguments in (["--help"], ["-h"]):
        print(bench_help())
        return 0
    if arguments and "=" not in arguments[0] and not arguments[0].startswith("-"):
        arguments = [f"what={arguments[0]}", *arguments[1:]]
    return hydra_verb("bench", _bench, _check)(arguments)


def _check(composed: DictConfig) -> None:
    """Raise ConfigError for an unknown kind or a tracker, before anything heavy is imported."""
    one_of("what", composed.what, tuple(KINDS))
    chosen = composed.hydra.runtime.choices.logger
    if chosen != "csv":
        raise ConfigError("logger", chosen, "neuro bench writes CSV files alone; trackers follow runs and neuro scale")
