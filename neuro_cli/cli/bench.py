"""``neuro bench``."""

from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig

from neuro_cli.cli.hydra_job import CONFIG_FOLDER, hydra_verb, job


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="bench")
def bench_main(config: DictConfig) -> None:
    job(config, _bench)


def _bench_brokers(config: dict[str, Any], run: Path) -> None:
    from neuro_cli.broker.packages import need_packages

    need_packages()
    from neuro_cli.bench.brokers import bench_brokers

    bench_brokers(config, run)


def _bench(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.bench.bench import bench

    bench(config, run, {"brokers": _bench_brokers})
    return 0


def bench_verb(arguments: list[str]) -> int:
    """``neuro bench WORD`` means ``what=WORD``."""
    if arguments and "=" not in arguments[0] and not arguments[0].startswith("-"):
        arguments = [f"what={arguments[0]}", *arguments[1:]]
    return hydra_verb(bench_main)(arguments)
