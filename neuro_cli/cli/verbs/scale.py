"""``neuro scale``."""

from pathlib import Path
from typing import Any

from neuro_cli.cli.command import hydra_verb


def _scale(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.scaling.scaling import scale

    scale(config, run)
    return 0


scale_verb = hydra_verb("scale", _scale)
