"""Assembles the trainable of a config, a population or an ensemble by its algorithm."""

from typing import Any

from neuro_cli.fabric.base import World
from neuro_cli.runner.build import build, is_ensemble
from neuro_cli.runner.ensemble.training import build_ensemble
from neuro_cli.runner.population import PopulationTraining
from neuro_cli.runner.trainable import Trainable


def assemble(config: dict[str, Any], world: World) -> Trainable:
    """Build all parts of a run, bound to each other. Raises UserError where they do not fit."""
    return build_ensemble(config, world) if is_ensemble(config) else PopulationTraining(build(config, world))
