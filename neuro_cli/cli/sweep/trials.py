"""Trials of a sweep by Optuna: values from the study, batches of jobs by the sweep's launcher, results back to the study.

The study's file is the state of the sweep. After a kill an open trial starts again with its values and in its folder, where the
run resumes. A trial without a finite value has failed; the sweep continues.

The search space has the syntax of Hydra's plugin for Optuna 2: ``interval(a,b)``, ``int(interval(a,b))``, ``range(a,b,step)``
with both ends, ``choice(x,y)`` or ``x,y``; ``tag(log,interval(a,b))`` on a logarithmic scale.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import optuna
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState

from neuro_cli.cli.sweep.jobs import metric_of
from neuro_cli.cli.sweep.launcher import SweepLauncher
from neuro_cli.cli.sweep.pruning import Pruning
from neuro_cli.cli.sweep.study import sampler_of, study_of
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.files import write_atomically
from neuro_cli.core.messages.verbosity import say

RESULTS = "optimization_results.yaml"
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


@dataclass
class Trials:
    """Loop over the trials of ``study``. ``space``: distributions by key; ``fixed``: overrides that all jobs share."""

    study: optuna.Study
    settings: Mapping[str, Any]
    space: dict[str, BaseDistribution]
    fixed: list[str]
    launcher: SweepLauncher
    folder: Path

    def run(self) -> None:
        cut_off = [trial for trial in self.study.get_trials(deepcopy=False) if trial.state is TrialState.RUNNING]
        batch = [Trial(self.study, trial._trial_id) for trial in cut_off]
        while batch := [*batch, *self._asked(begun=bool(batch))]:
            # a launcher numbers its jobs without gaps
            for _, group in groupby(enumerate(batch), lambda pair: pair[1].number - pair[0]):
                self._play([trial for _, trial in group])
            batch = []

    def _asked(self, begun: bool) -> list[Trial]:
        """Return the next batch, or the rest of one that has ``begun``. Batches begin at multiples of ``n_jobs``."""
        count, jobs = len(self.study.get_trials(deepcopy=False)), self.settings["n_jobs"]
        if begun and count % jobs == 0:
            return []
        trials = []
        for number in range(count, min(self.settings["n_trials"], (count // jobs + 1) * jobs)):
            self.study.sampler = sampler_of(self.settings, number)
            trials.append(self.study.ask(fixed_distributions=self.space))
        return trials

    def _play(self, trials: list[Trial]) -> None:
        overrides = [[*self.fixed, *(f"{key}={_text(value)}" for key, value in trial.params.items())] for trial in trials]
        with Pruning(self.study, self._runs(trials, overrides)) as pruning:
            returns = self.launcher.launch(overrides, trials[0].number)
        for trial, job in zip(trials, returns, strict=True):
            value = _value(job)
            if trial.number in pruning.pruned:
                self.study.tell(trial, state=TrialState.PRUNED)
            elif value is None:
                self.study.tell(trial, state=TrialState.FAIL)
            else:
                self.study.tell(trial, value)
                self._compare_directions(job)

    def _runs(self, trials: Sequence[Trial], overrides: list[list[str]]) -> dict[Trial, Path]:
        """Return the run folders whose rows decide whether trials are pruned; none without a pruner."""
        if isinstance(self.study.pruner, optuna.pruners.NopPruner):
            return {}
        places = zip(trials, overrides, strict=True)
        return {trial: self.folder / self.launcher.subdir(trial.number, texts) for trial, texts in places}

    def _compare_directions(self, job: JobReturn) -> None:
        """Say once if the metric declares another direction than the sweep."""
        metric = metric_of(Path(job.working_dir)) if job.working_dir else None
        own = {"higher": "maximize", "lower": "minimize"}.get(metric.better if metric else "", "")
        if metric and own and own != self.settings["direction"] and not self.study.user_attrs.get("direction_said"):
            self.study.set_user_attr("direction_said", True)
            direction = self.settings["direction"]
            say(f"neuro: hydra.sweeper.direction={direction}, but better values of {metric.name} are {metric.better}")

    def write(self) -> None:
        """Write the best trial, as Hydra's plugin for Optuna does, and print a line about the study."""
        trials = self.study.get_trials(deepcopy=False)
        counts = {state.name.lower(): sum(trial.state is state for trial in trials) for state in ENDED}
        found: dict[str, Any] = {"name": "optuna", "trials": counts}
        if counts["complete"]:
            best = self.study.best_trial
            found |= {"best_params": best.params, "best_value": best.value, "best_trial": best.number}
        write_atomically(self.folder / RESULTS, OmegaConf.to_yaml(OmegaConf.create(found)).encode())
        text = ", ".join(f"{count} {name}" for name, count in counts.items())
        best_text = f"; best: trial {found['best_trial']} with {found['best_value']:g}" if counts["complete"] else ""
        say(f"neuro: study: {text}{best_text}; {self.folder / RESULTS}")


def run_trials(settings: Mapping[str, Any], overrides: Mapping[str, Override], launcher: SweepLauncher, folder: Path) -> None:
    """Run the trials of a sweep with the keys ``settings`` of ``hydra/sweeper=optuna``. Raises ConfigError."""
    for key in ("n_trials", "n_jobs"):
        integer(f"hydra.sweeper.{key}", settings[key], 1)
    space = {key: distribution_of(each) for key, each in overrides.items() if each.is_sweep_override()}
    if not space:
        raise ConfigError("hydra/sweeper", "optuna", "needs a key with values to choose from: algo.sigma=interval(0.01,0.1)")
    fixed = [str(each.input_line) for each in overrides.values() if not each.is_sweep_override()]
    sampler_of(settings, 0)
    trials = Trials(study_of(settings, folder), settings, space, fixed, launcher, folder)
    try:
        trials.run()
    finally:
        trials.write()
    if any(trial.state is TrialState.COMPLETE for trial in trials.study.get_trials(deepcopy=False)):
        launcher.failures.clear()  # failed trials are results, too


def _value(job: JobReturn) -> float | None:
    """Return the finite value of a job; None for a failed one."""
    value = job.return_value if job.status is JobStatus.COMPLETED else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def distribution_of(override: Override) -> BaseDistribution:
    """Return Optuna's distribution of a swept key. Raises ConfigError for a value that is no search space."""
    value = override.value()
    try:
        if isinstance(value, IntervalSweep):
            assert value.start is not None
            assert value.end is not None
            return _numbers(value.start, value.end, None, "log" in value.tags)
        if isinstance(value, RangeSweep) and not value.shuffle:
            assert value.start is not None
            assert value.stop is not None
            return _numbers(value.start, value.stop, value.step, "log" in value.tags)
        if isinstance(value, RangeSweep | ChoiceSweep):  # a study has one order of choices, and Optuna draws from it
            override = replace(override, _value=replace(value, shuffle=False))
        return CategoricalDistribution(list(dict.fromkeys(override.sweep_string_iterator())))
    except ValueError as error:
        raise ConfigError(override.key_or_group, str(override.input_line).partition("=")[2], str(error)) from error


def _numbers(low: float, high: float, step: float | None, log: bool) -> BaseDistribution:
    if isinstance(low, int) and isinstance(high, int) and isinstance(step, int | None):
        return IntDistribution(low, high, log=log, step=step or 1)
    return FloatDistribution(low, high, log=log, step=None if log or step is None else step)
