"""Result of a training run, read from its folder."""

from base64 import b64encode
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.messages.install import install
from neuro_cli.factory.own_code import import_path_put_back
from neuro_cli.run_folder.declaration import declared, declared_inputs
from neuro_cli.run_folder.metrics import read_metrics
from neuro_cli.run_folder.saved_summary import read_summary
from neuro_cli.run_folder.short_names import folder_of
from neuro_cli.runner.load import MODULE, load_model, read_checkpoint, read_config, training_config, with_inputs


class Result:
    """Result of the run in the folder ``run``. Files are read at first access, and the network at most once.

    ``trust``: packages that its config may take classes from, None: all; ``objects``: options by group that a script made;
    ``summary``: content of ``summary.json`` if the caller has it.
    """

    run: Path

    def __init__(
        self, run: Path, trust: list[str] | None, objects: dict[str, Any], summary: dict[str, Any] | None = None
    ) -> None:
        self.run, self._trust, self._objects, self._summary = run, trust, objects, summary

    @classmethod
    def of(cls, run: str | Path, trust: list[str] | None = None, **objects: Any) -> "Result":
        """Return the result of a run. ``trust``: packages that its config may use; ``objects``: parts that a script made.

        Raises UserError for a folder that is no training run.
        """
        folder = folder_of(Path(run))
        training_config(folder)
        return cls(folder, trust or [], objects)

    @property
    def metrics(self) -> dict[str, list[Any]]:
        """Columns of ``metrics.csv`` by name, a value per generation; NaN where nothing was measured."""
        columns = read_metrics(self.run / "metrics.csv").columns
        return {name: (column.astype(np.int64) if name == "generation" else column).tolist() for name, column in columns.items()}

    @property
    def summary(self) -> dict[str, Any]:
        """Content of ``summary.json``. Raises UserError where there is none, as after a kill."""
        if self._summary is not None:
            return dict(self._summary)
        summary = read_summary(self.run)
        if summary is None:
            path = self.run / "summary.json"
            raise UserError(f"{path}: the run has no summary yet; neuro_cli.resume({str(self.run)!r}) continues it")
        return summary

    @cached_property
    def module(self) -> nn.Module:
        """Trained network of the last checkpoint, in evaluation mode, on the CPU. Raises UserError."""
        with import_path_put_back():
            needed = {group: part for group, part in self._objects.items() if group in MODULE}
            config = read_config(self.run, self._trust, needed, "load", MODULE)
            return with_inputs(load_model(self.run, config, read_checkpoint(self.run, config, None)), declared_inputs(self.run))

    def frame(self) -> Any:
        """Return ``metrics.csv`` as a pandas DataFrame, a row per generation. Raises UserError where pandas is missing."""
        try:
            import pandas
        except ImportError as error:
            raise UserError(f"frame: pandas is not installed: {install('frame')}; `metrics` has the same columns") from error
        return pandas.DataFrame(self.metrics)

    def plot(self) -> Any:
        """Return a matplotlib figure of fitness and the first test metric over generations, to change or to save.

        Raises UserError where no generation has ended.
        """
        from neuro_cli.run_folder.plot import figure_of, panel_of_run

        metrics = read_metrics(self.run / "metrics.csv")
        if not len(metrics):
            raise UserError(f"{self.run}/metrics.csv: no rows: there is nothing to plot")
        return figure_of([panel_of_run(metrics, *declared(self.run)[:1])], title=self.run.name)

    def _repr_html_(self) -> str:
        """Return a table of the summary with the run's curves, for notebooks."""
        try:
            shown = {name: value for name, value in self.summary.items() if isinstance(value, str | int | float)}
        except UserError as error:
            shown = {"not finished": str(error)}
        rows = "".join(f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>" for name, value in shown.items())
        curves = self.run / "curves.png"
        image = b64encode(curves.read_bytes()).decode() if curves.is_file() else ""
        picture = f'<img alt="curves" width="480" src="data:image/png;base64,{image}">' if image else ""
        return f"<p>{escape(str(self.run))}</p>{picture}<table>{rows}</table>"

    def __repr__(self) -> str:
        try:
            summary = self.summary
        except UserError:
            return f"Result({str(self.run)!r}, not finished)"
        headline = [f", {metric.name}={metric.text(summary[metric.name])}" for metric in declared(self.run)[:1]]
        return f"Result({str(self.run)!r}, generations={summary['generations']}{''.join(headline)})"
