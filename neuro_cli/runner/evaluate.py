"""``neuro evaluate RUN``: evaluates the trained network of a run on the test set."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from neuro_cli.core.threads import Threads
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import device_of, load_task, threads_of
from neuro_cli.runner.centre import sums_over_chunks
from neuro_cli.runner.ensemble.members import JointPrediction
from neuro_cli.runner.ensemble.metrics import evaluate_whole_ensemble, metrics_of
from neuro_cli.runner.load import load_model, read_checkpoint, read_config
from neuro_cli.runner.options import Options


def evaluate(run: Path, generation: int | None, trust: list[str], changes: dict[str, Any]) -> dict[str, float]:
    """Print and return the test metrics of a checkpoint, the last one by default. Raises UserError."""
    config = read_config(run, trust)
    checkpoint = read_checkpoint(run, config, generation)
    config |= {key: value for key, value in changes.items() if "." not in key}
    config["task"] |= {key.removeprefix("task."): value for key, value in changes.items() if key.startswith("task.")}
    options, world = Options(config), SingleProcess()
    device = device_of(config["device"])
    model = load_model(run, config, checkpoint).to(device)
    threads = Threads(threads_of(config["threads"], world, device))
    try:
        if isinstance(model, JointPrediction):
            values = evaluate_whole_ensemble(model, options, device, threads)
            declared = metrics_of(len(model.members))
        else:
            task = load_task(options, model, device, world)
            values, declared = task.evaluation(sums_over_chunks(task, model, world, threads)), task.metrics
    finally:
        threads.close()
    table = Table("metric", "value")
    texts = {metric.name: metric.text(values[metric.name]) for metric in declared}
    for name, value in values.items():
        table.add_row(name, texts.get(name, f"{value:.4f}"))
    console = Console()
    # not the table's title, which would be broken at its width; a folder's brackets are no markup
    console.print(f"{run}, generation {checkpoint.generation}", markup=False, highlight=False, soft_wrap=True)
    console.print(table)
    return values
