"""``neuro evaluate``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_cli.cli.arguments import json_file, names, run_arguments
from neuro_cli.core.checks import thread_count
from neuro_cli.core.errors import no_exit, printable
from neuro_cli.core.files import write_atomically
from neuro_cli.core.messages.tables import print_table
from neuro_cli.run_folder.config import saved_config

if TYPE_CHECKING:
    from neuro_cli.runner.evaluate import Evaluation

EVALUATE_KEYS = (
    "checkpoint",
    "trust",
    "task.root",
    "task.download",
    "task.files",
    "task.evaluation_episodes",
    "device",
    "threads",
)


def evaluate_verb(arguments: list[str]) -> int:
    keys = (*EVALUATE_KEYS, "output")
    run, values = run_arguments("evaluate", arguments, keys)
    output = json_file(values.pop("output")) if "output" in values else None
    generation, trust, changes = evaluate_arguments(values)
    saved_config(run)  # refuses a folder that is no run
    from neuro_cli.runner.evaluate import evaluate  # late: brings torch

    with no_exit():
        result = evaluate(run, generation, trust, changes)
        if output is not None:
            write_atomically(output, (json.dumps({"generation": result.generation, **result.values}, indent=1) + "\n").encode())
        _show(run, result)
    return 0


def evaluate_arguments(values: dict[str, Any]) -> tuple[int | str | None, list[str], dict[str, Any]]:
    """Return generation, trusted packages and changed keys of ``neuro evaluate``'s ``values`` by key. Raises ConfigError."""
    generation, trust = values.pop("checkpoint", None), names(values.pop("trust", []))
    if values.get("threads") is not None:
        values["threads"] = thread_count("threads", values["threads"])
    return generation, trust, values


def _show(run: Path, result: "Evaluation") -> None:
    """Print an evaluation as a table."""
    texts = {metric.name: metric.text(result.values[metric.name]) for metric in result.metrics}
    print(printable(f"{run}, generation {result.generation}"))
    rows = [(name, texts.get(name, f"{value:.4f}")) for name, value in result.values.items()]
    print_table(("metric", "value"), rows, numbers=("value",))
