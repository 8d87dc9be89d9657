"""``neuro bench``."""

from importlib import import_module
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from neuro_cli.cli.command import hydra_verb
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError

# what each kind measures, and its module below neuro_cli.bench, imported at need
KINDS = {
    "layer": ("layer.measure", "a perturbation for each example: a layer's forward pass by sampler, against an unperturbed one"),
    "correlation": ("correlation", "cosine of each sampler's gradient estimate and the gradient by back-propagation"),
    "diversity": ("diversity", "the published measure of a sampler's diversity"),
    "ensemble": ("ensemble", "an iteration of an ensemble by method, against one graph"),
    "ensemble_bytes": ("ensemble", "bytes that an ensemble's ranks exchange, against data parallelism"),
    "reinforcement": ("reinforcement", "minutes to a mean return by method; hours"),
    "records": ("records", "seconds to an accuracy, a setting against the one before it; hours"),
    "growth": ("growth", "seconds and memory of a generation against parameters, population and ranks"),
    "search": ("search", "best candidates of search strategies against random search"),
}


def _bench(config: dict[str, Any], run: Path) -> int:
    """Measure ``config["what"]`` into CSV files of ``run``. Raises UserError."""
    from neuro_cli.bench.config import BenchConfig
    from neuro_cli.runner.config import RunConfig
    from neuro_cli.runner.options import Options

    what, options = one_of("what", config["what"], tuple(KINDS)), Options(config)
    settings = BenchConfig.of(options.plain)
    if what != "layer":
        RunConfig.of(options.plain)  # checks the precision
    if options.is_ensemble:
        text = "neuro bench ensemble and ensemble_bytes measure ensembles, the section ensemble sets them"
        raise ConfigError("algo", "ensemble", text)
    getattr(import_module(f"neuro_cli.bench.{KINDS[what][0]}"), f"bench_{what}")(settings, run)
    return 0


def bench_help() -> str:
    """Return the help of ``neuro bench``: a line for each kind of measurement."""
    kinds = "\n".join(f"  {name:15s} {text}" for name, (_, text) in KINDS.items())
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
