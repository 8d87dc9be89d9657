"""Pruning of trials by the rows of their runs: a run that Optuna's pruner rejects is asked to stop."""

import math
import threading
from collections.abc import Mapping
from pathlib import Path

import optuna
from optuna.trial import Trial

from neuro_cli.cli.sweep.jobs import metric_of
from neuro_cli.logger.stored_rows import StoredRows
from neuro_cli.runner.stop_signals import ask_to_stop

PAUSE = 0.3  # seconds between two looks at the rows
LARGEST = 1e300  # stands for an infinite value: the differences of two are finite, which Optuna's medians need


class Pruning:
    """Thread that reports the rows of ``runs`` to ``study`` while the block runs. ``pruned``: numbers of rejected trials.

    Rows are reported in their order, the last ones after the run has ended, so that the machine's speed decides nothing.
    """

    def __init__(self, study: optuna.Study, runs: Mapping[Trial, Path]) -> None:
        self._study, self._runs = study, runs
        self._metrics: dict[int, str] = {}
        self.pruned: set[int] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="neuro-pruning", daemon=True)

    def __enter__(self) -> "Pruning":
        if self._runs:
            self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end.set()
        if not self._runs:
            return
        self._thread.join()
        if kind is None:
            self._look()

    def _watch(self) -> None:
        while not self._end.wait(PAUSE):
            self._look()

    def _look(self) -> None:
        for trial, run in self._runs.items():
            if trial.number not in self.pruned and self._given_up(trial, run):
                self.pruned.add(trial.number)
                ask_to_stop(run, "pruned")

    def _given_up(self, trial: Trial, run: Path) -> bool:
        """Report the new values of a run in order, and return whether the pruner rejects one of them."""
        name = self._metric(trial, run)
        if not name:
            return False
        reported = self._study._storage.get_trial(trial._trial_id).intermediate_values
        for row in StoredRows(run).after(max(reported, default=0)):
            value, generation = row.get(name), row["generation"]
            if value is not None and generation is not None:
                trial.report(_finite(value), int(generation))
                if trial.should_prune():
                    return True
        return False

    def _metric(self, trial: Trial, run: Path) -> str:
        """Return the column that the sweep optimises; empty before the run has begun."""
        if trial.number not in self._metrics:
            metric = metric_of(run)
            if metric is None:
                return ""
            self._metrics[trial.number] = metric.name
        return self._metrics[trial.number]


def _finite(value: float) -> float:
    """Return ``value``, or +-1e300 for an infinity, with which the median of Optuna's pruners is NaN and rejects nobody."""
    return math.copysign(LARGEST, value) if math.isinf(value) else float(value)
