"""``neuro bench``: what is measured, by name. Each prints a table and writes a CSV file into the run folder."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from neuro_cli.core.checks import integer, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.bench_correlation import bench_correlation
from neuro_cli.runner.bench_ensemble import bench_bytes, bench_ensemble
from neuro_cli.runner.bench_generation import bench_generation
from neuro_cli.runner.bench_layer import bench_layer
from neuro_cli.runner.bench_noise import bench_noise
from neuro_cli.runner.bench_rollout import bench_rollout
from neuro_cli.runner.build import check_root, is_ensemble

KINDS = {
    "generation": bench_generation,
    "noise": bench_noise,
    "layer": bench_layer,
    "correlation": bench_correlation,
    "rollout": bench_rollout,
    "ensemble": bench_ensemble,
    "ensemble_bytes": bench_bytes,
}


def bench(config: dict[str, Any], run: Path, more: Mapping[str, Callable[[dict[str, Any], Path], None]]) -> None:
    """Measure ``config["what"]``, of the kinds here or in ``more``. Raises UserError."""
    kinds = {**KINDS, **more}
    what = one_of("what", config["what"], tuple(kinds))
    integer("repeats", config["repeats"], 1)
    check_root(config)
    if is_ensemble(config):
        raise ConfigError(
            "algo", "ensemble", "neuro bench ensemble and ensemble_bytes measure ensembles, the section ensemble sets them"
        )
    kinds[what](config, run)
