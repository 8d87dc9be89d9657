"""Evaluation of a run's trained network on the test set."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.metric import Metric
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.factory.script_objects import is_made
from neuro_cli.runner.build import load_task, threads_of
from neuro_cli.runner.centre_evaluation import sums_over_chunks
from neuro_cli.runner.device import device_of
from neuro_cli.runner.ensemble.members import JointPrediction
from neuro_cli.runner.ensemble.metrics import evaluate_whole_ensemble, metrics_of
from neuro_cli.runner.load import MODULE, load_model, read_checkpoint, read_config
from neuro_cli.runner.options import Options


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of the network of ``generation``: ``values`` of metrics by name; ``metrics``: the declared ones."""

    generation: int
    values: dict[str, float]
    metrics: tuple[Metric, ...]


def evaluate(
    run: Path,
    generation: int | str | None,
    trust: list[str] | None,
    changes: Mapping[str, Any],
    objects: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Evaluate a checkpoint, the last one by default. ``objects``: a script's own, by group. Raises UserError."""
    config = read_config(run, trust, objects, "evaluate", MODULE)
    checkpoint = read_checkpoint(run, config, generation)
    config |= {key: value for key, value in changes.items() if "." not in key}
    for key in [key for key in changes if key.startswith("task.")]:
        if is_made(config["task"]):
            raise ConfigError(key, changes[key], "a script made the task: set it there")
        config["task"][key.removeprefix("task.")] = changes[key]
    options, world = Options(config), SingleProcess()
    device = device_of(config["device"])
    model = load_model(run, config, checkpoint).to(device)
    threads = Threads(threads_of(config["threads"], world, device))
    try:
        if isinstance(model, JointPrediction):
            values = evaluate_whole_ensemble(model, options, device, threads)
            declared = metrics_of(len(model.members))
        else:
            options.task.restore(checkpoint.part("task"))
            task = load_task(options, model, device, world)
            values, declared = task.evaluation(sums_over_chunks(task, model, world, threads)), task.metrics
    finally:
        threads.close()
    return Evaluation(checkpoint.generation, values, declared)
