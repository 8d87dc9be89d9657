"""``neuro bench``: runs one kind of benchmark, which prints a table and writes a CSV file into the run folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.correlation import bench_correlation
from neuro_cli.bench.diversity import bench_diversity
from neuro_cli.bench.ensemble import bench_bytes, bench_ensemble
from neuro_cli.bench.growth import bench_growth
from neuro_cli.bench.layer.measure import bench_layer
from neuro_cli.bench.records import bench_records
from neuro_cli.bench.reinforcement import bench_reinforcement
from neuro_cli.bench.search import bench_search
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.config import RunConfig
from neuro_cli.runner.options import Options

KINDS: dict[str, Callable[[BenchConfig, Path], None]] = {
    "layer": bench_layer,
    "correlation": bench_correlation,
    "diversity": bench_diversity,
    "ensemble": bench_ensemble,
    "ensemble_bytes": bench_bytes,
    "reinforcement": bench_reinforcement,
    "records": bench_records,
    "search": bench_search,
    "growth": bench_growth,
}


def bench(config: dict[str, Any], run: Path) -> None:
    """Measure ``config["what"]``, one of the kinds here, into CSV files of ``run``. Raises UserError."""
    what = one_of("what", config["what"], tuple(KINDS))
    options = Options(config)
    settings = BenchConfig.of(options.plain)
    if what != "layer":
        RunConfig.of(options.plain)  # checks the precision
    if options.is_ensemble:
        raise ConfigError(
            "algo", "ensemble", "neuro bench ensemble and ensemble_bytes measure ensembles, the section ensemble sets them"
        )
    KINDS[what](settings, run)
