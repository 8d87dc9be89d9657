"""Assembles the trainable of a config, a population or an ensemble by its algorithm."""

from neuro_cli.fabric.base import World
from neuro_cli.runner.build import build
from neuro_cli.runner.ensemble.training import build_ensemble
from neuro_cli.runner.options import Options
from neuro_cli.runner.population import PopulationTraining
from neuro_cli.runner.trainable import Trainable


def assemble(options: Options, world: World) -> Trainable:
    """Build all parts of a run, bound to each other. Raises UserError where they do not fit."""
    return build_ensemble(options, world) if options.is_ensemble else PopulationTraining(build(options, world))
