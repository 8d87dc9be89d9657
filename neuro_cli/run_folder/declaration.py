"""``.hydra/metrics.yaml``: the metrics that a run's evaluations measure, as its task declared them.

A report reads them from there, since making the task would run its code. The file lies beside the config, for it says what the
run is: it is there from the first moment, and it stays when checkpoints are removed.
"""

from collections.abc import Sequence
from pathlib import Path

import yaml

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import write_atomically
from neuro_cli.core.metric import ACCURACY, LOSS, RETURN, Metric, as_plain, from_plain
from neuro_cli.run_folder import saved_yaml

MOST = 100  # metrics in the file; those of an ensemble's single members, which come last, may be thousands
UNDECLARED = (ACCURACY, RETURN, LOSS)  # of folders from before the declaration


def declare(run: Path, metrics: Sequence[Metric]) -> None:
    """Write the file into the run folder ``run``. Raises UserError."""
    path = _file(run)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, yaml.safe_dump(as_plain(metrics[:MOST]), sort_keys=False).encode())
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def declared(run: Path) -> tuple[Metric, ...]:
    """The metrics of the run in ``run``, the headline first; none where its folder does not say. Raises UserError."""
    path = _file(run)
    if not path.exists():
        return ()
    try:
        return from_plain(saved_yaml.read(path))
    except ValueError as error:
        raise UserError(f"{path}: no declaration of metrics: {error}") from error


def _file(run: Path) -> Path:
    return run / ".hydra" / "metrics.yaml"
