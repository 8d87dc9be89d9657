"""``neuro scale``."""

from pathlib import Path
from typing import Any

from neuro_cli.cli.command import hydra_verb
from neuro_cli.core.errors import UserError
from neuro_cli.fabric.mpi import launched


def _scale(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.scaling.scaling import scale

    if launched():
        raise UserError("neuro scale starts its worlds itself: run it without a launcher")
    scale(config, run)
    return 0


scale_verb = hydra_verb("scale", _scale)
