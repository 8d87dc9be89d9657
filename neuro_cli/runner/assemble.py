"""From a config to work: which kind a run is, its algorithm says."""

from typing import Any

from neuro_cli.fabric.base import World
from neuro_cli.runner.build import build, is_ensemble
from neuro_cli.runner.ensemble.training import build_ensemble
from neuro_cli.runner.population import PopulationTraining
from neuro_cli.runner.trainable import Trainable


def assemble(config: dict[str, Any], world: World) -> Trainable:
    """All parts of a run, bound to each other. Raises UserError for whatever does not fit."""
    return build_ensemble(config, world) if is_ensemble(config) else PopulationTraining(build(config, world))
