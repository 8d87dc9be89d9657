"""From a config to work: which kind a run is, its algorithm says."""

from neuro_cli.fabric.base import World
from neuro_cli.runner.build import build
from neuro_cli.runner.ensemble.training import build_ensemble
from neuro_cli.runner.options import Options
from neuro_cli.runner.population import PopulationTraining
from neuro_cli.runner.trainable import Trainable


def assemble(options: Options, world: World) -> Trainable:
    """All parts of a run, bound to each other. Raises UserError for whatever does not fit."""
    return build_ensemble(options, world) if options.is_ensemble else PopulationTraining(build(options, world))
