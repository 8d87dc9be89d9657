"""``neuro evaluate``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_cli.cli.arguments import names, run_arguments
from neuro_cli.cli.overrides.words import parse_plain
from neuro_cli.core.checks import thread_count
from neuro_cli.core.errors import ConfigError, no_exit, printable
from neuro_cli.run_folder.checkpoint import write_atomically

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
    from neuro_cli.runner.evaluate import evaluate

    options = run_arguments("evaluate", arguments)
    output, overrides = _output(options.overrides)
    generation, trust, changes = evaluate_arguments(overrides)
    with no_exit():
        found = evaluate(options.run, generation, trust, changes)
        if output is not None:
            write_atomically(output, (json.dumps({"generation": found.generation, **found.values}, indent=1) + "\n").encode())
        _show(options.run, found)
    return 0


def _output(overrides: Sequence[str]) -> tuple[Path | None, list[str]]:
    """File of ``output=FILE.json``, the metrics as numbers, and the other overrides. Raises ConfigError."""
    others = [text for text in overrides if text.partition("=")[0] != "output"]
    output = None
    for text in overrides:
        if text not in others:
            output = Path(str(parse_plain(text)[1]))
            if output.suffix != ".json" or output.is_dir() or not output.parent.is_dir():
                raise ConfigError("output", output, "must be a file NAME.json in a folder that is there")
    return output, others


def evaluate_arguments(overrides: Sequence[str]) -> tuple[int | str | None, list[str], dict[str, Any]]:
    """Generation, trusted packages and changed keys of ``overrides``. Raises UserError."""
    generation, trust, changes = None, [], {}
    for text in overrides:
        key, value = parse_plain(text)
        if key == "checkpoint":
            generation = value
        elif key == "trust":
            trust = names(value)
        elif key in EVALUATE_KEYS:
            changes[key] = thread_count(key, value) if key == "threads" and value is not None else value
        else:
            raise ConfigError(key, value, f"evaluate takes {', '.join(EVALUATE_KEYS)}")
    return generation, trust, changes


def _show(run: Path, found: "Evaluation") -> None:
    """Print an evaluation as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table("metric", "value")
    texts = {metric.name: metric.text(found.values[metric.name]) for metric in found.metrics}
    for name, value in found.values.items():
        table.add_row(name, texts.get(name, f"{value:.4f}"))
    console = Console()
    # not the table's title, which would be broken at its width; a folder's brackets are no markup
    console.print(printable(f"{run}, generation {found.generation}"), markup=False, highlight=False, soft_wrap=True)
    console.print(table)
