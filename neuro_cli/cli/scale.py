"""``neuro scale``."""

from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig

from neuro_cli.cli.hydra_job import CONFIG_FOLDER, hydra_verb, job
from neuro_cli.core.errors import UserError
from neuro_cli.fabric.mpi import launched


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="scale")
def scale_main(config: DictConfig) -> None:
    job(config, _scale)


def _scale(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.scaling.scaling import scale

    if launched():
        raise UserError("neuro scale starts its worlds itself: run it without a launcher")
    scale(config, run)
    return 0


scale_verb = hydra_verb(scale_main)
