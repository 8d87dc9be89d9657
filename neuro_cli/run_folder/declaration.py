"""``.hydra/metrics.yaml`` and ``.hydra/inputs.yaml``: what a run's evaluations measure, and what its network takes.

Reports read the first file, users of the network the second; to make the task instead would run its code and need its data.
Both lie next to the config, exist from the start of the run, and stay when checkpoints are removed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import save_file
from neuro_cli.core.metric import ACCURACY, LOSS, RETURN, Metric, as_plain, from_plain
from neuro_cli.run_folder import saved_yaml

if TYPE_CHECKING:  # reports read the metrics without torch
    from neuro_cli.task.inputs import Inputs

METRICS, INPUTS = ".hydra/metrics.yaml", ".hydra/inputs.yaml"
MOST = 100  # metrics in the file; an ensemble has some for each of its members, maybe thousands, and they come last
UNDECLARED = (ACCURACY, RETURN, LOSS)  # metrics of folders that are older than the declaration


def declare(run: Path, metrics: Sequence[Metric], inputs: "Inputs | None" = None) -> None:
    """Write the files into the run folder ``run``; without ``inputs`` only the first. Raises UserError."""
    _write(run / METRICS, as_plain(metrics[:MOST]))
    if inputs is not None:
        from neuro_cli.task.inputs import as_plain as plain_of

        _write(run / INPUTS, plain_of(inputs))


def _write(path: Path, node: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(path, yaml.safe_dump(node, sort_keys=False, allow_unicode=True))


def declared(run: Path) -> tuple[Metric, ...]:
    """Return the metrics of the run in ``run``, the headline first; none where its folder declares none. Raises UserError."""
    path = run / METRICS
    if not path.exists():
        return ()
    try:
        return from_plain(saved_yaml.read(path))
    except ValueError as error:
        raise UserError(f"{path}: no declaration of metrics: {error}") from error


def declared_inputs(run: Path) -> "Inputs | None":
    """Return the inputs of the network of the run in ``run``; None where its folder declares none. Raises UserError."""
    path = run / INPUTS
    if not path.exists():
        return None
    from neuro_cli.task.inputs import from_plain as inputs_of

    try:
        return inputs_of(saved_yaml.read(path))
    except ValueError as error:
        raise UserError(f"{path}: no declaration of inputs: {error}") from error
